"""What `bench/trainer.py` gives each side: one model, one set of logs, and a step from tokens to gradients.

Ours is `build_packs`, `Policy.score`, a method's update and its loss, as a learner takes them; the naive side pads and
takes the logits of transformers as they are. Those of the peers are in `trainer_peers`.
"""

from __future__ import annotations

import ctypes
import math
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from train import attention
from train.batch import Batch
from train.methods.baselines import Reinforce
from train.methods.corrections import CISPO
from train.packing import build_packs
from train.policy import Policy
from train.sequences import LoggedSequence

PROMPT, COMPLETION = 50, 130
"""Median tokens of a prompt, and of what follows it. Convention, untested."""
SPREAD = 0.8
"""Deviation of the logarithm of either, which is lognormal, as in bench/methods.py. Convention, untested."""
SPAN, ACTIONS = 100, 70
"""Of every so many tokens behind the prompt, the first so many are actions and the rest a tool's."""
DRIFT = 0.1
"""Deviation of the logged log-probabilities around those of a uniform policy, which fresh weights nearly are."""
ROWS = 8
"""Traces that a padding side computes at a time."""
BUDGET = 2048
"""Slots of a pack, the default of `train.token_budget`."""

PLAIN = Reinforce(baseline=0.0, correction=CISPO(low=1.0, high=math.inf), aggregation="token_mean")
"""Advantage times detached ratio over one count of action tokens: "cispo" of TRL and verl without a clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Dimensions of a model of Qwen2's kind, with the head tied to the embedding."""

    vocabulary: int = 256
    hidden: int = 256
    layers: int = 2
    heads: int = 8
    key_value_heads: int = 2
    intermediate: int = 1024

    def model(self, attention_kind: str, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
        """The model, with the same random weights each time, in training mode and with all its gradients on."""
        from transformers import Qwen2Config, Qwen2ForCausalLM

        attention.register()
        config = Qwen2Config(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            intermediate_size=self.intermediate,
            max_position_embeddings=1 << 16,
            tie_word_embeddings=True,
            attn_implementation=attention_kind,
        )
        torch.manual_seed(7)
        with torch.device(device):
            made = Qwen2ForCausalLM(config)
        return made.to(dtype).train()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How made-up logs are drawn."""

    num_traces: int = 24
    shared: int = 0
    """Tokens of a system prompt with which all of them begin."""
    prompt: float = PROMPT
    completion: float = COMPLETION
    spread: float = SPREAD


@dataclass(frozen=True, slots=True)
class Logs:
    """Traces of one sequence each, and the advantage of each."""

    sequences: tuple[LoggedSequence, ...]
    advantages: tuple[float, ...]

    @property
    def num_tokens(self) -> int:
        """Real tokens, shared ones counted in each trace."""
        return sum(len(sequence.token_ids) for sequence in self.sequences)

    @property
    def num_actions(self) -> int:
        """Action tokens: what the loss is a mean over."""
        return sum(sequence.num_action_tokens for sequence in self.sequences)

    def advantage(self, trace_id: str) -> float:
        """That of the trace of this name."""
        return self.advantages[int(trace_id)]


def draw(how: Draw, vocabulary: int) -> Logs:
    """Logs with lognormal lengths."""
    random = np.random.default_rng(7)
    factors = np.exp(how.spread * random.standard_normal((how.num_traces, 2)))
    lengths = [(max(8, round(how.prompt * ask)), max(8, round(how.completion * rest))) for ask, rest in factors]
    return logs_of(lengths, vocabulary, shared=how.shared)


def logs_of(lengths: Sequence[tuple[int, int]], vocabulary: int, *, shared: int = 0) -> Logs:
    """Traces with random tokens, of these lengths of prompt and completion behind `shared` tokens that all have.

    The first action of a trace ends its prompt.
    """
    random = np.random.default_rng(8)
    system = random.integers(0, vocabulary, shared)
    sequences = []
    for number, (prompt, completion) in enumerate(lengths):
        tokens = np.concatenate([system, random.integers(0, vocabulary, prompt + completion)]).astype(np.int32)
        actions = np.zeros(len(tokens), dtype=np.bool_)
        actions[-completion:] = np.arange(completion) % SPAN < ACTIONS
        logged = np.minimum(DRIFT * random.standard_normal(len(tokens)) - math.log(vocabulary), 0.0)
        sequences.append(
            LoggedSequence(
                trace_id=f"{number:04}",
                trace_revision=0,
                sequence_index=0,
                behavior_version=None,
                token_ids=tokens,
                action_mask=actions,
                behavior_logprobs=np.where(actions, logged, np.nan).astype(np.float32),
                temperature=1.0,
            )
        )
    # Not centred, so that the loss is far from 0 and a relative difference of it says something.
    advantages = tuple(float(value) for value in random.uniform(-0.5, 1.5, len(lengths)))
    return Logs(tuple(sequences), advantages)


def chunks(logs: Logs, rows: int, *, by_length: bool) -> list[list[LoggedSequence]]:
    """The traces some at a time, as they arrived or sorted by length."""
    given = list(logs.sequences)
    if by_length:
        given.sort(key=lambda sequence: len(sequence.token_ids))
    return [given[start : start + rows] for start in range(0, len(given), rows)]


def padded(rows: Sequence[Any], *, left: bool = False) -> Tensor:
    """Lists of numbers as one tensor [B, L], with 0 where there is none or NaN."""
    longest = max(len(row) for row in rows)
    whole = np.zeros((len(rows), longest), dtype=np.asarray(rows[0]).dtype)
    for at, row in enumerate(rows):
        whole[at, longest - len(row) if left else 0 : longest if left else len(row)] = np.nan_to_num(row)
    return torch.from_numpy(whole)


class Side(Protocol):
    """One way from the logs to the gradients of the weights; what has to be padded beforehand is not timed."""

    name: str
    model: Any
    num_slots: int
    """Tokens that the trunk computes, padding included and shared ones once where they are computed once."""

    def step(self) -> float:
        """Forward, loss and backward over all logs, from gradients of None; returns the loss."""
        ...


@dataclass
class Ours:
    """Packs without padding, common beginnings once, action tokens alone through the head."""

    model: Any
    logs: Logs
    budget: int = BUDGET
    name: str = "ours"
    num_slots: int = field(init=False)

    def __post_init__(self) -> None:
        """Take the model as it is."""
        self.policy = Policy(self.model, Path())
        self.num_slots = sum(pack.num_slots for pack in self._packs())

    def _packs(self) -> list[Any]:
        return build_packs([(sequence,) for sequence in self.logs.sequences], token_budget=self.budget)

    def step(self) -> float:
        """Packing, figures and entropies included, as a learner has them."""
        self.model.zero_grad(set_to_none=True)
        packs = self._packs()
        ordered = [sequence for pack in packs for sequence in pack.sequences]
        rows = [
            {
                "trace_id": sequence.trace_id,
                "reward": self.logs.advantage(sequence.trace_id),
                "behavior_logprobs": sequence.action_logprobs,
            }
            for sequence in ordered
        ]
        batch, first, told = Batch.from_rows(rows).to(self.policy.device), 0, 0.0
        for pack in packs:
            members = range(first, first + len(pack.sequences))
            scores = self.policy.score(pack, with_entropies=True)
            loss = PLAIN.update(batch.select(members).with_logprobs(scores.logprobs)).loss(scores.logprobs)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            told += float(loss.detach())
            first = members.stop
        return told


class Naive:
    """Padding to the right, logits of every position, log_softmax over all of them."""

    def __init__(self, model: Any, logs: Logs, *, by_length: bool, rows: int = ROWS) -> None:
        self.model, self._num_actions = model, logs.num_actions
        self.name = f"plain transformers, padded, {order(by_length)}"
        self._chunks = [_right_padded(chunk, logs) for chunk in chunks(logs, rows, by_length=by_length)]
        self.num_slots = sum(chunk[0].numel() for chunk in self._chunks)

    def step(self) -> float:
        """One forward pass a chunk, gradients summed."""
        self.model.zero_grad(set_to_none=True)
        told = 0.0
        for ids, mask, actions, behavior, advantages in self._chunks:
            logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
            logprobs = torch.log_softmax(logits.float(), -1).gather(-1, ids[:, 1:, None])[..., 0]
            log_ratios = torch.where(actions[:, 1:], logprobs.detach() - behavior[:, 1:], 0.0)
            terms = torch.where(actions[:, 1:], log_ratios.exp() * advantages * logprobs, 0.0)
            loss = -terms.sum() / self._num_actions
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            told += float(loss.detach())
        return told


def order(by_length: bool) -> str:
    """The name of an order of the traces."""
    return "length buckets" if by_length else "arrival order"


def _right_padded(chunk: list[LoggedSequence], logs: Logs) -> tuple[Tensor, ...]:
    return (
        padded([sequence.token_ids for sequence in chunk]).long(),
        padded([np.ones(len(sequence.token_ids), dtype=np.int64) for sequence in chunk]),
        padded([sequence.action_mask for sequence in chunk]),
        padded([sequence.behavior_logprobs for sequence in chunk]),
        torch.tensor([[logs.advantage(sequence.trace_id)] for sequence in chunk]),
    )


def gradients_of(model: Any) -> dict[str, Tensor]:
    """A copy of the gradient of each weight, by name."""
    return {
        name.removeprefix("module."): parameter.grad.detach().to("cpu", torch.float64)
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def relative_difference(own: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Norm of the difference of all gradients over the norm of `own`; inf where another set of weights has one."""
    if own.keys() != other.keys():
        return math.inf
    apart = sum(float((own[name] - other[name]).square().sum()) for name in own)
    return math.sqrt(apart / sum(float(gradient.square().sum()) for gradient in own.values()))


def peak_mib(side: Side) -> float:
    """MiB of resident memory that a step takes at its highest, above what is held before it; gradients included."""
    side.model.zero_grad(set_to_none=True)
    if sys.platform != "linux":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        side.step()
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    ctypes.CDLL(None).malloc_trim(0)  # What an earlier setting freed is given back before what is held is read.
    Path("/proc/self/clear_refs").write_text("5")  # Sets the peak back to what is held now.
    held = _resident("VmRSS")
    side.step()
    return _resident("VmHWM") - held


def _resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
