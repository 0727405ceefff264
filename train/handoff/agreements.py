"""Which trainer runs which method, under which of its own settings; every other pair is refused with the reason.

Read off TRL 1.16.0 (trl/experimental/async_grpo), verl 0.9.1 (verl/trainer/ppo/core_algos.py, rollout_corr_helper.py)
and prime-rl 559b4477 of 2026-08-21 (src/prime_rl/trainer/rl/loss.py, train.py). All three are given advantages and
average over the action tokens of a batch, so that the method's baseline and normaliser are in the advantages, and what
has to agree is what becomes of the ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from schemas.errors import UsageError
from train.handoff.rules import Named, rule_settings
from train.methods import corrections
from train.methods.baselines import GRPO, Reinforce
from train.methods.catalog import Method
from train.methods.correction_catalog import correction_by_name
from train.methods.corrections import Correction
from train.methods.flash_reinforce import FlashReinforce

Trainer = Literal["prime-rl", "trl", "verl"]

VERSIONS = MappingProxyType({"prime-rl": "559b4477 (2026-08-21)", "trl": "1.16.0", "verl": "0.9.1"})
"""The version of each trainer whose code was read."""

OPEN_GATE = 14.0
"""Trust in nats a token from which FlashREINFORCE's gate drops nothing: its KL clamps probabilities to 1e-6, so that no
token reaches -log(1e-6) = 13.8."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """The settings of a trainer under which it runs the method, and what they leave open."""

    settings: Mapping[str, Any]
    """Names as the trainer has them."""
    notes: tuple[str, ...] = ()
    """Where the arithmetic can still part, and what else has to hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchShapes:
    """What the settings of a trainer depend on in the batches."""

    num_sequences: tuple[int, ...]
    """Sequences of each batch."""
    temperatures: tuple[float, ...]
    """The temperatures that occur, ascending."""
    num_positions: int
    """Tokens of the longest sequence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A method whose coefficients are w A / n: a rule w for the ratio, and a divisor n."""

    correction: Correction
    aggregation: str


def form_of(method: Method) -> Form | None:
    """The form of a method whose advantages are made of rewards alone; None for a method that has another."""
    if isinstance(method, Reinforce | GRPO):
        return Form(correction=correction_by_name(method.correction), aggregation=method.aggregation)
    if isinstance(method, FlashReinforce) and method.trust >= OPEN_GATE and method.negative_token_fraction == 1.0:
        return Form(correction=corrections.ImportanceSampling(), aggregation="trace_mean")
    return None


def require_form(trainer: Trainer, method: Method) -> Form:
    """The form of a method that this trainer runs, whatever the batches; refused with the reason where it does not."""
    form = form_of(method)
    if form is None:
        raise _refusal(trainer, method.name, f"{_ASKS[method.name]}; {_lack(trainer, method.name)}")
    _rule(trainer, method.name, form.correction)
    return form


def agreement(trainer: Trainer, method: Method, shapes: BatchShapes) -> Agreement:
    """The settings under which the trainer runs the method on such batches; refused with the reason where none do."""
    rule = _rule(trainer, method.name, require_form(trainer, method).correction)
    settings, notes = _SURROUNDINGS[trainer](shapes, method.name)
    return Agreement(settings={**rule, **settings}, notes=notes)


def _rule(trainer: Trainer, method: str, correction: Correction) -> Named:
    """The trainer's settings for this rule of the ratio."""
    found = rule_settings(trainer, correction)
    if isinstance(found, str):
        raise _refusal(trainer, method, f"its correction is {correction.name!r}, {found}")
    return found


def _refusal(trainer: str, method: str, reason: str) -> UsageError:
    return UsageError(
        f"{method} is not handed to {trainer}: {reason}. Expected a method that {trainer} {VERSIONS[trainer]} computes "
        "the same: use --to jsonl and the method itself in a loop of your own (docs/own_loop.md), or train here"
    )


_ASKS = {
    "flash_reinforce": "it drops a trace whole when its mean drift under the weights of the moment is above trust, "
    "which no row can carry ahead of the update",
    "sao": "it needs a value critic that learns along, GAE whose lambda follows the length and which skips "
    "observations, and a strict band for the ratio",
    "bpco": "it needs a value critic bounded to the range of the rewards, and GAE whose lambda follows the length",
    "klpo": "it has neither an advantage nor an importance ratio: each token has a residual under the weights of the "
    "moment, along a score that is centred under the policy that wrote the trace",
    "bpo": "it weighs a token by what is left to all others, (1 + eps - mu) / (1 + eps - pi), not by its ratio",
    "rae": "its baselines are running means that the trainer has to keep from batch to batch",
}

_LACKS = {
    ("prime-rl", "flash_reinforce"): "prime-rl's losses mask single tokens and keep the rest of a stale trace",
    ("trl", "flash_reinforce"): "TRL clips single tokens, and the off_policy_mask_threshold of its GRPOTrainer is a "
    "mean log-ratio that asks the traces of negative advantage alone",
    ("verl", "flash_reinforce"): "verl's rollout_rs rejects by k1, k2 or k3 of a sequence, none of which is the mean "
    "Bernoulli KL of a trace",
    ("prime-rl", "sao"): "prime-rl hosts the trained policy alone (prime_rl/configs/algorithm.py, FrozenModelConfig): "
    "no value network, so no advantages from one",
    ("trl", "sao"): "TRL's GRPO trainers have no critic",
    ("verl", "sao"): "verl has a critic, but its GAE takes one algorithm.lam for every length and whitens what comes "
    "out (core_algos.py, compute_gae_advantage_return)",
    ("verl", "bpco"): "verl's critic is not bounded, and its GAE takes one algorithm.lam for every length and whitens "
    "what comes out; the authors run it in a fork of verl, golden_critic",
    ("trl", "bpo"): "the package of TRL 1.16.0 has no BPO trainer",
    ("prime-rl", "rae"): "prime-rl's rae is of its orchestrator, which makes its own rollouts and reads none of these",
}


def _lack(trainer: Trainer, method: str) -> str:
    """What the trainer does in its place."""
    alike = "sao" if method == "bpco" else method
    found = _LACKS.get((trainer, method)) or _LACKS.get((trainer, alike))
    return found or f"every loss of {trainer} multiplies a given advantage by a ratio"


def _one_temperature(trainer: str, shapes: BatchShapes, method: str) -> float:
    if len(shapes.temperatures) > 1:
        raise _refusal(
            trainer,
            method,
            f"the traces were sampled at {len(shapes.temperatures)} temperatures, from {shapes.temperatures[0]:g} to "
            f"{shapes.temperatures[-1]:g}, and it scores all of them at one; prime-rl takes one a token",
        )
    return shapes.temperatures[0]


def _prime_rl(shapes: BatchShapes, method: str) -> tuple[Named, tuple[str, ...]]:  # noqa: ARG001 - one signature
    settings = {
        "rollout_transport.type": "filesystem",
        "max_steps": len(shapes.num_sequences),
        "model.seq_len": shapes.num_positions,
    }
    return settings, (
        "names are those of prime_rl.configs.trainer.TrainerConfig; output_dir is the folder of this file",
        "one data-parallel rank reads rank_0.bin of each step; model.seq_len is the least that holds every sequence",
        "ratios are unbounded, where the rule `is` here stops at e^20",
    )


def _trl(shapes: BatchShapes, method: str) -> tuple[Named, tuple[str, ...]]:
    num_batches, sizes = len(shapes.num_sequences), set(shapes.num_sequences)
    if len(sizes) > 1:
        raise _refusal(
            "trl",
            method,
            f"its batches have from {min(sizes)} to {max(sizes)} sequences, and its AsyncGRPOTrainer draws the same "
            "number for every step, so that its batches, and what it divides by, would be others",
        )
    settings = {
        "temperature": _one_temperature("trl", shapes, method),
        "per_device_train_batch_size": shapes.num_sequences[0],
        "gradient_accumulation_steps": 1,
        "token_budget": 0,
        "max_steps": num_batches,
        "max_staleness": num_batches + 1,
    }
    return settings, (
        (
            "names are those of trl.experimental.async_grpo.AsyncGRPOConfig; one process, and a rollout_worker that "
            "pushes the rows in their order, such as that of docs/export.md"
        ),
        "model_version is 0 in every row: TRL counts its own syncs with it, and drops what is older than max_staleness",
    )


def _verl(shapes: BatchShapes, method: str) -> tuple[Named, tuple[str, ...]]:
    sizes: Sequence[int] = sorted(set(shapes.num_sequences))
    settings: Named = {
        "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
        "actor_rollout_ref.actor.entropy_coeff": 0.0,
        "actor_rollout_ref.actor.use_kl_loss": False,
        "actor_rollout_ref.actor.ppo_epochs": 1,
        "actor_rollout_ref.rollout.temperature": _one_temperature("verl", shapes, method),
    }
    notes = [
        "advantages are those of the rows and are not computed again; old_log_probs are rollout_log_probs",
        "verl cuts log-ratios at 20: beyond e^20 its clipped losses have no gradient, where the rules here have one",
    ]
    if len(sizes) == 1:
        settings["actor_rollout_ref.actor.ppo_mini_batch_size"] = sizes[0]
    else:
        notes.append(f"a mini-batch is a whole file, from {sizes[0]} to {sizes[-1]} rows: set its size file by file")
    return settings, tuple(notes)


_SURROUNDINGS: Mapping[str, Callable[[BatchShapes, str], tuple[Named, tuple[str, ...]]]] = {
    "prime-rl": _prime_rl,
    "trl": _trl,
    "verl": _verl,
}
