"""KLPO: policy mirror descent as a regression, its scores centred under the behavior policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import BatchError, SettingsError
from train import records
from train.action_axis import first_true
from train.batch import Batch
from train.methods import centering, notes, requirements, terms
from train.methods.centering import Centred
from train.methods.requirements import Undemanding
from train.methods.update import Actions, Update

Centering = Literal["exact", "monte_carlo", "topk", "binary"]

_KINDS = {"exact": ("full", "expected"), "monte_carlo": ("draws",), "topk": ("top_k", "full"), "binary": ()}
"""The records that each centering can be computed from."""

ALMOST_CERTAIN = -(2.0**-24)
"""Log-probability of the largest float32 below 1, 1 - 2^-24: what float32 rounds to 0 lies above it. Convention,
untested."""

FALLBACK = 'KLPO(centering="binary"), an approximation that is not centred'
"""What a log without records leaves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KLPO(Undemanding):
    """Each token moves the policy by what its reward leaves unexplained of the log-ratio, along a centred score.

        ell_t = log p_t - log q_t                    p the current policy, q the one that wrote the trace
        z_t   = grad log p_t - sum_v q_v grad log p_v,  the mean by one of four centerings, see `centering`
        h_t   = R - beta ell_t                       the "token" route, ascent sum_t h_t z_t / B
        D     = R - beta sum_t (ell_t + k_t)         the "sequence" route, ascent D sum_t z_t / B, k the divergence

    There is no importance ratio, clip, gate, critic or baseline: p = q gives h = R, R = 0 pulls p back to q, and a
    constant reward moves nothing in expectation, since z has mean 0 under q. In expectation a step lowers
    Var_q(h) / (2 beta). A coefficient of "exact" and "monte_carlo" is at most (abs(R) + beta abs(ell)) / B, however old
    the trace; one of "binary" is (1 - q)/(1 - p) times that, and one of "topk" may be as large at a floored tail.

    Tokens are summed and divided by B: a trace of 2,000 tokens weighs as much as 2,000 traces of one, and a learning
    rate that was found with another method does not carry over. A trace with several sequences has one D over all.

    Centerings, by what the traces carry beside `behavior_logprobs`:

    - "exact": the whole vocabulary, or its two sums; deterministic.
    - "monte_carlo": M draws of the behavior policy, made when serving; without bias, in the sequence route through the
      residual of the other draws, for which M >= 2.
    - "topk": the K most likely tokens, the tail modelled; an approximation unless K reaches the vocabulary less one.
    - "binary": nothing; an approximation that is not centred, so that a constant reward moves the policy.

    Draws that train a second time, after the policy has adapted to them, are a surrogate: lack of bias needs new draws
    from the policy that wrote the trace. Draws made from a served head in place of the vocabulary can be worse than no
    centering, and most of them cannot be told from honest ones: give such a head as what it is, with "topk". A trace
    that several versions wrote is an approximation under every centering.

    Needs reward, behavior_logprobs, action mask and records. Refuses a trace without an action token, records that
    cannot be what they say (`records.examined`), and with "binary" a log-probability of exactly 0.

    yifanzhang-pro/KLPO, arXiv:2610.08963. Its authors had not validated it at scale.
    """

    name: ClassVar[str] = "klpo"
    splits: ClassVar[bool] = True

    beta: float = 0.1
    """Weight of the log-ratio against the reward, in reward a nat; state it. KLPO, arXiv:2610.08963: 0.1 in the release
    (67b0288) of September and in its launcher; 1e-3 in the library since October (0cde554, 4859bdc)."""

    route: Literal["token", "sequence"] = "token"
    """Whether each token has its own residual or a trace one for all. KLPO, arXiv:2610.08963, default."""

    centering: Centering = "monte_carlo"
    """How the mean score under the behavior policy is found. KLPO, arXiv:2610.08963, default."""

    num_records: int | None = None
    """How many recorded tokens each token must have, M draws or K of a head; None takes what the batch has. KLPO,
    arXiv:2610.08963: 128 in September's release (67b0288), 16 since October (0cde554, 4859bdc)."""

    certain: Literal["refuse", "floor"] = "refuse"
    """What the binary centering, which divides by 1 - p, does with a log-probability of exactly 0: "refuse" it, as
    KLPO, arXiv:2610.08963, does; or "floor" it at -2^-24, the last float32 below 1, and count it: a token that became
    certain then has a coefficient of up to 2^24 times its residual, which its gradient, 1 - p, takes back. Real models
    are that sure: SmolLM2-135M is, of a token of the recorded example, measured 2026-12-01."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_number(self, "beta", low=1e-12, hint="0.1 and 1e-3 are the published ones")
        requirements.option_choice(self, "route", ("token", "sequence"))
        requirements.option_choice(self, "centering", tuple(_KINDS))
        requirements.option_choice(self, "certain", ("refuse", "floor"))
        if self.centering != "binary":
            requirements.options_unread(self, ("certain",), f"with centering={self.centering!r}")
        if self.num_records is None:
            return
        requirements.option_number(self, "num_records", low=1, hint="None takes what the batch has")
        if self.centering == "binary" or not isinstance(self.num_records, int):
            raise SettingsError(
                f"KLPO(num_records={self.num_records!r}, centering={self.centering!r}): expected a whole number, with "
                f"a centering that reads records; leave it out"
            )

    @property
    def needs_records(self) -> records.Kind | None:
        """The records that a trainer has to bring: none for the binary centering."""
        brought: dict[str, records.Kind] = {"exact": "expected", "monte_carlo": "draws", "topk": "top_k"}
        return brought.get(self.centering)

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it: only B is of the whole."""
        requirements.action_tokens(batch, self.name)
        actions, counts = batch.actions, batch.num_action_tokens
        log_ratios = requirements.log_ratios(batch, self.name)
        found = self.centred(batch)
        ell, rewards = log_ratios.double(), batch.rewards

        regression: dict[str, float] = {}
        by_record: Tensor | None = None
        if self.route == "token":
            residuals = actions.of_traces(rewards) - self.beta * ell
        else:
            of_traces = rewards - self.beta * terms.trace_sums(ell + found.divergences, actions.traces, len(counts))
            squares = of_traces**2
            if found.columns is not None:
                by_trace = rewards[:, None] - self.beta * _column_sums(ell[:, None] + found.columns, batch)
                others, noise = leave_one_out(by_trace)
                by_record, squares = actions.of_traces(others), squares - noise
            regression["regression_loss"] = float(squares.mean()) / (2.0 * self.beta)
            residuals = actions.of_traces(of_traces)

        weights = residuals / batch.statistics.num_traces
        coefficients = (weights if found.factors is None else weights * found.factors).to(batch.dtype)
        requirements.finite(batch, coefficients, "quarantine the trace")
        of_records = weights[:, None] if by_record is None else by_record / batch.statistics.num_traces
        auxiliary = None if found.shares is None else -(of_records * found.shares).to(batch.dtype)
        if auxiliary is not None:
            requirements.finite(batch, auxiliary.abs().amax(1), "quarantine the trace")
        return Update(
            batch=batch,
            method=self.name,
            coefficients=actions.spread(coefficients),
            auxiliary_coefficients=None if auxiliary is None else actions.spread(auxiliary),
            of_actions=Actions(advantages=residuals.to(batch.dtype), log_ratios=log_ratios),
            in_trust=torch.ones_like(counts, dtype=torch.bool),
            stats=self._stats(batch, found, log_ratios, residuals) | regression,
            notes=self._notes(batch, found),
        )

    def centred(self, batch: Batch) -> Centred:
        """What the centering makes of each action token of a batch; records that it cannot read are refused."""
        if self.centering == "binary":
            return centering.binary(*self._uncertain(batch))
        found = records.examined(batch, f"{self.name} {self.centering}", _KINDS[self.centering], FALLBACK)
        self._check_number(batch, found.num_records)
        found = centering.on_actions(batch, found)
        if self.centering == "exact":
            return centering.exact(found)
        if self.centering == "monte_carlo":
            return centering.monte_carlo(found)
        return centering.top_k(found, literal=self.route == "sequence")

    def _check_number(self, batch: Batch, number: int) -> None:
        """Refuse another number of records than was stated, and a single draw where the others' residual is needed."""
        if self.num_records not in (None, number):
            raise BatchError(
                f"klpo: {number} recorded tokens at each token of trace {batch.trace_ids[0]} and the rest; expected "
                f"{self.num_records}; set num_records to what was recorded, or leave it out"
            )
        if self.centering == "monte_carlo" and self.route == "sequence" and number < 2:
            raise BatchError(
                f"klpo: 1 draw at each token of trace {batch.trace_ids[0]} and the rest; expected at least 2 in the "
                f"sequence route, where each is weighed by the residual of the others; use the token route"
            )

    def _uncertain(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logged and current logprobs below 0: one of exactly 0 leaves nothing to the other tokens."""
        logprobs, behavior = requirements.scored(batch, self.name)
        if self.certain == "floor":
            return behavior.clamp(max=ALMOST_CERTAIN), logprobs.clamp(max=ALMOST_CERTAIN)
        for name, numbers in (("behavior_logprobs", behavior), ("logprobs", logprobs)):
            certain = first_true(numbers >= 0)
            if certain is not None:
                raise BatchError(
                    f"klpo binary: {batch.place_of_action(certain)}: {name} of exactly 0; expected below 0, "
                    f"since 1 - p divides; compute the log-softmax in float32 or wider before the token is picked, "
                    f'record tokens, or set certain="floor"'
                )
        return behavior, logprobs

    def _stats(self, batch: Batch, found: Centred, log_ratios: Tensor, residuals: Tensor) -> dict[str, float]:
        """Figures; the ratios are for comparison, nothing is multiplied by them."""
        num, traces = len(log_ratios), batch.actions.traces
        ratios = terms.importance_ratios(log_ratios.double().clamp(max=terms.LARGEST_EXPONENT))
        stats = {
            "in_trust_share": 1.0,
            "mean_trace_kl": float(terms.trace_sums(found.divergences, traces, len(batch.trace_ids)).mean()),
            "mean_residual": terms.mean_over(residuals, num),
            "max_residual": float(residuals.abs().max()),
            "mean_ratio": terms.mean_over(ratios, num),
            "max_ratio": float(ratios.max()),
            "num_floored_tokens": 0.0,
        }
        if found.head_masses is not None and found.floored is not None:
            stats["mean_head_mass"] = terms.mean_over(found.head_masses, num)
            stats["min_head_mass"] = float(found.head_masses.min())
            stats["num_floored_tokens"] = float(found.floored.sum())
        return stats

    def _notes(self, batch: Batch, found: Centred) -> list[str]:
        """How the scores were centred, and how far that is from exact."""
        told = [_about_centering(self.centering, batch, found)]
        gap = records.behavior_gap(batch) if self.centering == "exact" else None
        if gap is not None:
            told.append(f"logged and recomputed log-probabilities of the sampled tokens are up to {gap:.2g} nats apart")
        num_tokens = len(batch.actions)
        num_floored = 0 if found.floored is None else int(found.floored.sum())
        if num_floored:
            bounded = "and pass nothing through it" if self.route == "sequence" else "by which their shares are divided"
            told.append(
                f"{num_floored} of {num_tokens} tokens leave less than {centering.TAIL_FLOOR:g} to the tail, {bounded}"
                f": record a larger head"
            )
        if self.centering == "binary" and self.certain == "floor":
            highest = torch.maximum(*requirements.scored(batch, self.name))
            num_certain = int((highest > ALMOST_CERTAIN).sum())
            told.append(
                f"{num_certain} of {num_tokens} tokens had a log-probability above {ALMOST_CERTAIN:.1e}, read as that"
            )
        told.append(
            f"no ratio, clip or gate: all {num_tokens} tokens count, and a trace counts by its number of tokens"
        )
        mixed = _written_by_several(batch)
        if bool(mixed.any()):
            told.append(f"{notes.named(batch.trace_ids, mixed)} written by several versions, which is an approximation")
        return told + notes.about_numbers(batch)


def leave_one_out(residuals: Tensor) -> tuple[Tensor, Tensor]:
    """For each of M >= 2 draws the mean residual of the others, and the variance of their mean.

    [B, M] to [B, M] and [B]: D_-j = Dbar - (D_j - Dbar)/(M - 1), and mean_j (D_j - Dbar)^2 / (M - 1). A draw must not
    be weighed by a residual that it is part of, with which its score would be correlated. KLPO, arXiv:2610.08963.
    """
    mean, rest = residuals.mean(1, keepdim=True), residuals.shape[1] - 1
    apart = residuals - mean
    return mean - apart / rest, (apart**2).mean(1) / rest


def _column_sums(columns: Tensor, batch: Batch) -> Tensor:
    """Sum over the tokens of each trace; [A, M] to [B, M]."""
    sums = torch.zeros(len(batch.trace_ids), columns.shape[1], dtype=torch.float64, device=columns.device)
    return sums.index_add_(0, batch.actions.traces, columns)


def _written_by_several(batch: Batch) -> Tensor:
    """[B] traces whose action tokens were written at more than one policy lag."""
    num = len(batch.trace_ids)
    lags = batch.on_actions("policy_lags")
    if lags is None:
        return torch.zeros(num, dtype=torch.bool, device=batch.rewards.device)
    highest, lowest = (terms.trace_maxima(sign * lags, None, batch.actions.traces, num) for sign in (1.0, -1.0))
    return highest + lowest > 0


def _about_centering(how: str, batch: Batch, found: Centred) -> str:
    """Which centering was used, in one sentence."""
    number = 0 if batch.records is None else batch.records.num_records
    if found.head_masses is not None:
        masses = found.head_masses
        return (
            f"centred over a head of {number} tokens that holds {float(masses.mean()):.4%} of the behavior policy, at "
            f"the least {float(masses.min()):.4%}, the tail modelled: an approximation"
        )
    if how == "binary":
        return "binary, an approximation: not centred, only the sampled token's logprob was read; record tokens"
    if how == "monte_carlo":
        draws = f"{number} draw{'s' if number != 1 else ''}"
        return f"centred by Monte Carlo over {draws} a token: a surrogate once the policy has trained on them"
    whole = batch.records is not None and batch.records.kind == "full"
    return f"centred exactly, over {f'all {number} tokens' if whole else 'the sums of a whole vocabulary'}"
