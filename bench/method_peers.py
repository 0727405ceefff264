"""What `bench/methods.py` compares with: the loss functions of verl and TRL, called as they are, on made-up logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from train.batch import Batch
from train.methods.bpco import BPCO
from train.records import Records

MEDIAN_LENGTH, SPREAD, LONGEST = 500, 0.8, 8_192
"""Trace lengths are lognormal with these, in tokens: some 1,400 traces to a million tokens. Convention, untested."""

GROUP = 4
"""Traces of one ask."""

SPAN, ACTIONS = 100, 70
"""Of every so many tokens, the first so many are actions and the rest a tool's."""

DRIFT = 0.1
"""Deviation of the log-ratio of a token: enough that every clip acts. Convention, untested."""

NUM_DRAWS = 16
"""Recorded draws a token, for the method that reads them. KLPO's own count."""

CAP = 20.0
"""Highest ratio that verl's losses let through, `clip_ratio_c`; no ratio of the drawn logs reaches it."""

EPSILON = 1e-6
"""verl's addition to the deviation of a group."""

Loss = Callable[["Layout", Tensor], Tensor]


@dataclass(frozen=True)
class Traces:
    """Made-up logs on one token axis."""

    lengths: Tensor
    mask: Tensor
    behavior: Tensor
    current: Tensor
    values: Tensor
    rewards: Tensor
    groups: Tensor

    @property
    def index(self) -> Tensor:
        """[N] the trace of each token."""
        return torch.repeat_interleave(torch.arange(len(self.lengths), device=self.mask.device), self.lengths)

    def draws(self) -> tuple[Records, Tensor]:
        """Recorded draws of the behavior policy, not yet scored, and their scores; [N, K]."""
        generator = torch.Generator().manual_seed(8)
        shape = (len(self.mask), NUM_DRAWS)
        behavior = -torch.empty(shape).exponential_(2.5, generator=generator)
        current = (behavior + DRIFT * torch.randn(shape, generator=generator)).clamp(max=0.0)
        device = self.mask.device
        return Records(kind="draws", behavior_logprobs=behavior.to(device)), current.to(device)

    def batch(self, records: Records | None = None) -> Batch:
        """The same as a batch, not yet scored."""
        order = torch.arange(len(self.lengths), device=self.mask.device)
        return Batch(
            trace_ids=tuple(f"trace-{number}" for number in range(len(order))),
            rewards=self.rewards,
            sequence_lengths=self.lengths,
            sequence_traces=order,
            sequence_index=torch.zeros_like(order),
            action_mask=self.mask,
            behavior_logprobs=self.behavior,
            values=self.values,
            groups=self.groups,
            records=records,
        )

    def rows(self) -> list[dict[str, Any]]:
        """The same as plain rows, one a trace."""
        columns = {
            "logprobs": self.current,
            "behavior_logprobs": self.behavior,
            "values": self.values,
            "action_mask": self.mask,
        }
        parts = {name: torch.split(tensor, self.lengths.tolist()) for name, tensor in columns.items()}
        return [
            {"reward": reward, **{name: part[trace].tolist() for name, part in parts.items()}}
            for trace, reward in enumerate(self.rewards.tolist())
        ]


def draw(num_tokens: int, device: str = "cpu") -> Traces:
    """Logs of so many tokens, a little older than the policy."""
    generator = torch.Generator().manual_seed(7)
    lengths: list[int] = []
    while sum(lengths) < num_tokens:
        drawn = MEDIAN_LENGTH * float(torch.exp(SPREAD * torch.randn((), generator=generator)))
        lengths.append(min(max(16, int(drawn)), LONGEST, num_tokens - sum(lengths)))
    behavior = -torch.empty(num_tokens).exponential_(2.5, generator=generator)
    current = (behavior + DRIFT * torch.randn(num_tokens, generator=generator)).clamp(max=0.0)
    order = torch.arange(len(lengths))
    made = Traces(
        lengths=torch.tensor(lengths),
        mask=torch.arange(num_tokens) % SPAN < ACTIONS,
        behavior=behavior,
        current=current,
        values=torch.rand(num_tokens, generator=generator),
        rewards=torch.randint(0, 2, (len(lengths),), generator=generator).float(),
        # The last traces join the group before them, so that none is alone.
        groups=(order // GROUP).clamp(max=max(0, len(lengths) // GROUP - 1)),
    )
    return Traces(**{name: tensor.to(device) for name, tensor in vars(made).items()})


class Layout:
    """The logs as a peer reads them: [B, L] with padding, or [1, N] without."""

    def __init__(self, traces: Traces, *, padded: bool) -> None:
        self.traces, self.padded, self.index = traces, padded, traces.index
        starts = torch.cumsum(traces.lengths, 0) - traces.lengths
        self._columns = torch.arange(len(self.index), device=self.index.device) - starts[self.index]
        self._shape = (len(traces.lengths), int(traces.lengths.max()))
        self.mask, self.behavior, self.current = map(self.of, (traces.mask.float(), traces.behavior, traces.current))
        self.ids = traces.groups.cpu().numpy()
        self.num_actions = traces.mask.sum()

    def of(self, tokens: Tensor) -> Tensor:
        """Numbers [N] in the layout, 0 where there is no token."""
        return self.widened(tokens) if self.padded else tokens.unsqueeze(0)

    def widened(self, tokens: Tensor) -> Tensor:
        """Numbers [N] with padding; [B, L]."""
        return tokens.new_zeros(self._shape).index_put_((self.index, self._columns), tokens)

    def narrowed(self, wide: Tensor) -> Tensor:
        """The inverse; [N]."""
        return wide[self.index, self._columns]

    def packed(self, laid_out: Tensor) -> Tensor:
        """Numbers of the layout on the token axis; [N]."""
        return self.narrowed(laid_out) if self.padded else laid_out[0]

    @cached_property
    def wide(self) -> SimpleNamespace:
        """What only functions over [B, L] read: mask, values, rewards on the last action token, lambdas [B]."""
        traces = self.traces
        counts = torch.bincount(self.index[traces.mask], minlength=len(traces.lengths))
        acted = torch.cumsum(traces.mask, 0)
        last = traces.mask & (acted == torch.cumsum(counts, 0)[self.index])
        return SimpleNamespace(
            mask=self.widened(traces.mask.float()),
            values=self.widened(traces.values),
            rewards=self.widened(torch.where(last, traces.rewards[self.index], 0.0)),
            lambdas=(1.0 - 1.0 / (BPCO().gae_alpha * counts)).clamp(min=0.0).float(),
        )


class Verl:
    """verl's advantages and losses."""

    name = "verl"
    modules = ("verl", "ray", "tensordict", "hydra")

    def __init__(self) -> None:
        from verl.trainer.ppo import core_algos, rollout_corr_helper
        from verl.workers.config import ActorConfig

        self._core, self._helper, self._config = core_algos, rollout_corr_helper, ActorConfig

    def grouped(self, layout: Layout) -> Tensor:
        """GRPO's advantages, by the faster of verl's two functions."""
        scores = layout.wide.rewards if layout.padded else layout.traces.rewards.unsqueeze(1)
        mask = layout.mask if layout.padded else torch.ones_like(scores)
        found: Tensor
        found, _ = self._core.compute_grpo_vectorized_outcome_advantage(scores, mask, layout.ids, epsilon=EPSILON)
        return found if layout.padded else found[:, 0].index_select(0, layout.index).unsqueeze(0)

    def generalised(self, layout: Layout) -> Tensor:
        """GAE as it is before verl whitens it. The function has padding in any case."""
        wide = layout.wide
        _, returns = self._core.compute_gae_advantage_return(wide.rewards, wide.values, wide.mask, 1.0, wide.lambdas)
        advantages: Tensor = returns - wide.values
        return advantages if layout.padded else layout.narrowed(advantages).unsqueeze(0)

    def clipped(self, kind: str, low: float, high: float) -> Loss:
        """One of the registered losses over GRPO's advantages."""

        def loss(layout: Layout, logprobs: Tensor) -> Tensor:
            return self._registered(kind, (low, high), layout, logprobs, self.grouped(layout), "token-mean")

        return loss

    def clipped_with_critic(self, kind: str, clip: float) -> Loss:
        """The same over GAE, summed over tokens and averaged over traces."""

        def loss(layout: Layout, logprobs: Tensor) -> Tensor:
            advantages = self.generalised(layout)
            return self._registered(kind, (clip, clip), layout, logprobs, advantages, "seq-mean-token-sum")

        return loss

    def weighted(self, threshold: float | str, *, critic: bool = False) -> Loss:
        """REINFORCE under the weights of rollout correction: a number truncates, "low_high" masks outside."""

        def loss(layout: Layout, logprobs: Tensor) -> Tensor:
            advantages = self.generalised(layout) if critic else self.grouped(layout)
            log_ratios = logprobs.detach() - layout.behavior
            weights, _ = self._helper.compute_rollout_correction_weights(log_ratios, layout.mask, "token", threshold)
            made: Tensor
            made, _ = self._core.compute_policy_loss_reinforce(
                layout.behavior, logprobs, advantages, layout.mask, "token-mean", self._settings(layout), weights
            )
            return made

        return loss

    def _registered(self, kind: str, clip: tuple[float, float], layout: Layout, *rest: Any) -> Tensor:
        logprobs, advantages, aggregation = rest
        function, config = self._core.get_policy_loss_fn(kind), self._settings(layout, clip)
        made: Tensor
        made, _ = function(layout.behavior, logprobs, advantages, layout.mask, aggregation, config)
        return made

    def _settings(self, layout: Layout, clip: tuple[float, float] = (0.2, 0.2)) -> Any:
        return self._config(
            strategy="fsdp",
            rollout_n=GROUP,
            use_dynamic_bsz=True,
            clip_ratio=clip[1],
            clip_ratio_low=clip[0],
            clip_ratio_high=clip[1],
            clip_ratio_c=CAP,
            global_batch_info={"global_batch_size": len(layout.traces.lengths)},
        )


class Trl:
    """The loss inside of TRL's GRPOTrainer, called with the attributes that it reads and no model behind them."""

    name = "TRL"
    modules = ("trl", "datasets")

    def __init__(self) -> None:
        from trl.trainer.grpo_trainer import GRPOTrainer

        self._compute = GRPOTrainer._compute_loss  # it has no public function for its loss
        self._advantages: dict[int, Tensor] = {}

    def clipped(self, kind: str, low: float, high: float) -> Loss:
        """One of its losses. The advantages are given, and not timed: TRL computes them while it generates."""
        fixed: dict[str, Any] = {
            "accelerator": SimpleNamespace(gather=_same, reduce=_same, num_processes=1),
            "args": SimpleNamespace(delta=None, steps_per_generation=1),
            "model": SimpleNamespace(training=True),
            "current_gradient_accumulation_steps": 1,
            "aux_loss_enabled": False,
            "top_entropy_quantile": 1.0,
            "off_policy_mask_threshold": None,
            "importance_sampling_level": "token",
            "beta": 0.0,
            "use_vllm": False,
            "_entropy_bonus_enabled": False,
            "loss_type": kind,
            "epsilon_low": low,
            "epsilon_high": high,
        }

        def loss(layout: Layout, logprobs: Tensor) -> Tensor:
            scored = (logprobs, torch.zeros_like(logprobs), None)
            trainer = SimpleNamespace(
                _get_per_token_logps_and_entropies=lambda *_, **__: scored,
                _metrics={"train": defaultdict(list)},
                **fixed,
            )
            ids = torch.zeros((len(layout.mask), 0), dtype=torch.int64, device=logprobs.device)
            inputs = {
                **dict.fromkeys(("prompt_ids", "prompt_mask", "completion_ids"), ids),
                "completion_mask": layout.mask,
                "advantages": self._given(layout),
                "old_per_token_logps": layout.behavior,
                "num_items_in_batch": layout.num_actions,
            }
            made: Tensor = self._compute(trainer, None, inputs)
            return made

        return loss

    def _given(self, layout: Layout) -> Tensor:
        if id(layout) not in self._advantages:
            groups, rewards = layout.traces.groups, layout.traces.rewards
            advantages = torch.zeros_like(rewards)
            for group in groups.unique():
                own = rewards[groups == group]
                advantages[groups == group] = (own - own.mean()) / (own.std() + EPSILON)
            per_token = advantages[layout.index].unsqueeze(0)
            self._advantages[id(layout)] = advantages if layout.padded else per_token
        return self._advantages[id(layout)]


def _same(tensor: Tensor, **_: Any) -> Tensor:
    return tensor
