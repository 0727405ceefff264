"""Log-probabilities of action tokens: the next-token shift, the logged temperature and the head, once for all.

Nothing else in the project shifts a token axis or divides by a temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from train.packing import Pack

LOGITS_AT_ONCE = 1 << 25
"""Entries of a block of logits, 128 MiB in float32: 220 tokens of a vocabulary of 152k. Blocks of 128 to 512 tokens of
152k took 1.19 to 0.94 of the time of full logits at 0.07 to 0.18 of the memory (measured 2026-11-30)."""


@dataclass(frozen=True, slots=True, eq=False)
class ActionTokens:
    """The A action tokens of a pack, sequence after sequence, each with the slot whose hidden state predicts it."""

    slots: Tensor
    """[A] slot of the token before it in its own sequence."""
    token_ids: Tensor
    """[A] the token itself."""
    temperatures: Tensor
    """[A] temperature that it was sampled at, float32."""

    def to(self, device: torch.device) -> ActionTokens:
        """The same on `device`."""
        return ActionTokens(self.slots.to(device), self.token_ids.to(device), self.temperatures.to(device))


def action_tokens(pack: Pack) -> ActionTokens:
    """The action tokens of `pack`. This is the one place that knows that a hidden state predicts the next token."""
    slots, tokens, temperatures = [], [], []
    for index, sequence in enumerate(pack.sequences):
        positions = np.flatnonzero(sequence.action_mask)
        slots.append(pack.sequence_slots[index][positions - 1])
        tokens.append(sequence.token_ids[positions])
        temperatures.append(np.full(len(positions), sequence.temperature, dtype=np.float32))
    return ActionTokens(
        slots=torch.from_numpy(np.concatenate(slots)),
        token_ids=torch.from_numpy(np.concatenate(tokens).astype(np.int64)),
        temperatures=torch.from_numpy(np.concatenate(temperatures)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class BehaviorStates:
    """What the policy that wrote A tokens makes of the places before them; constants."""

    hidden: Tensor
    """[A, H] its final hidden states."""
    weight: Tensor
    """[V, H] its head."""
    bias: Tensor | None = None
    """[V] of its head, if there is one."""

    def log_softmax(self, block: slice, temperatures: Tensor) -> Tensor:
        """Log-probabilities of the whole vocabulary for a block of the tokens, at their temperatures."""
        with torch.no_grad():
            return _log_softmax(self.hidden[block], self.weight, self.bias, temperatures)

    def draws(self, own: slice, temperatures: Tensor, *, num: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Ids and log-probabilities [A, num] of independent draws with replacement at each place of `own`."""
        ids, logprobs = [], []
        for block in _blocks(own.stop - own.start, len(self.weight)):
            log_softmax = self.log_softmax(slice(own.start + block.start, own.start + block.stop), temperatures[block])
            drawn = torch.multinomial(log_softmax.exp(), num, replacement=True, generator=generator)
            ids.append(drawn)
            logprobs.append(log_softmax.gather(-1, drawn))
        return torch.cat(ids), torch.cat(logprobs)

    def likeliest(self, temperatures: Tensor, *, num: int) -> tuple[Tensor, Tensor]:
        """Ids and log-probabilities [A, num] of the likeliest tokens at each place, likeliest first."""
        found = [
            self.log_softmax(block, temperatures[block]).topk(num, dim=-1)
            for block in _blocks(len(self.hidden), len(self.weight))
        ]
        return torch.cat([each.indices for each in found]), torch.cat([each.values for each in found])


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """What one pass over the vocabulary says of the A action tokens; in nats, [A] unless said.

    In float32, or in float64 where the model is in it.
    """

    logprobs: Tensor
    """Natural-log probabilities; carries the graph when there is one."""
    entropies: Tensor | None
    """Entropy of each token's distribution, a constant; None unless asked for."""
    expected_logprobs: Tensor | None
    """Sum over the vocabulary of q log p, q being the behavior policy's distribution; carries the graph of p."""
    expected_behavior_logprobs: Tensor | None
    """Sum over the vocabulary of q log q, a constant."""
    sampled_behavior_logprobs: Tensor | None
    """What the behavior policy says of the tokens themselves, a constant; what was logged differs by the engines."""
    recorded_logprobs: Tensor | None
    """[A, K] log-probabilities of K other tokens at each place; carries the graph."""


def token_logprobs(  # noqa: PLR0913 - states, head and tokens, and three things that may be asked besides
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    tokens: ActionTokens,
    *,
    with_entropies: bool = False,
    behavior: BehaviorStates | None = None,
    recorded_ids: Tensor | None = None,
) -> TokenScores:
    """What the policy says of each action token, at the token's own temperature.

    `hidden` [A, H] are the final hidden states at `tokens.slots`, `weight` [V, H] and `bias` [V] the head;
    `behavior` is what the policy that wrote the tokens makes of them, where expectations under it are wanted;
    `recorded_ids` [A, K] are other tokens that are asked about at each place. The softmax is never in less than
    float32 whatever autocast says. [A, V] is never held: blocks of tokens are projected, and projected again on the way
    back.
    """
    logprobs, entropies, expected, own, again, recorded = _BlockwiseLogprobs.apply(  # type: ignore[no-untyped-call]  # torch has no type for it
        hidden, weight, bias, behavior, recorded_ids, tokens, with_entropies
    )
    expects = behavior is not None
    return TokenScores(
        logprobs,
        entropies if with_entropies else None,
        expected if expects else None,
        own if expects else None,
        again if expects else None,
        None if recorded_ids is None else recorded,
    )


class _BlockwiseLogprobs(torch.autograd.Function):
    """Saves hidden states and head; the log-softmax of a block is computed again in backward."""

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917 - autograd functions take their tensors one by one
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        behavior: BehaviorStates | None,
        recorded_ids: Tensor | None,
        tokens: ActionTokens,
        with_entropies: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        logprobs = torch.empty(len(hidden), dtype=_wide(hidden), device=hidden.device)
        entropies, expected, own, again = (torch.empty_like(logprobs) for _ in range(4))
        recorded = logprobs.new_empty((0, 0) if recorded_ids is None else recorded_ids.shape)
        for block in _blocks(len(hidden), len(weight)):
            log_softmax = _log_softmax(hidden[block], weight, bias, tokens.temperatures[block])
            logprobs[block] = log_softmax.gather(-1, tokens.token_ids[block, None])[:, 0]
            if with_entropies:
                entropies[block] = -(log_softmax.exp() * log_softmax).sum(-1)
            if behavior is not None:
                log_q = behavior.log_softmax(block, tokens.temperatures[block])
                q = log_q.exp()
                expected[block], own[block] = (q * log_softmax).sum(-1), (q * log_q).sum(-1)
                again[block] = log_q.gather(-1, tokens.token_ids[block, None])[:, 0]
            if recorded_ids is not None:
                recorded[block] = log_softmax.gather(-1, recorded_ids[block])
        context.save_for_backward(hidden, weight, bias, recorded_ids)
        context.tokens, context.behavior = tokens, behavior
        constants = [entropies, own, again]
        constants += [] if behavior is not None else [expected]
        constants += [] if recorded_ids is not None else [recorded]
        context.mark_non_differentiable(*constants)
        return logprobs, entropies, expected, own, again, recorded

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, recorded_ids = context.saved_tensors
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=_wide(hidden)) if context.needs_input_grad[1] else None
        of_bias = torch.zeros_like(bias, dtype=_wide(hidden)) if context.needs_input_grad[2] else None
        for block in _blocks(len(hidden), len(weight)):
            temperatures = context.tokens.temperatures[block]
            p = _log_softmax(hidden[block], weight, bias, temperatures).exp_()
            divisors = temperatures[:, None]
            others = None
            if context.behavior is not None:
                # d sum q log p / d logits = (q - p) / temperature
                q = context.behavior.log_softmax(block, temperatures).exp_()
                others = q.sub_(p).mul_(gradients[2][block, None] / divisors)
            if recorded_ids is not None:
                pulls = gradients[5][block] / divisors
                recorded = (p * -pulls.sum(-1, keepdim=True)).scatter_add_(-1, recorded_ids[block], pulls)
                others = recorded if others is None else others.add_(recorded)
            # d log p / d logits = (one-hot - p) / temperature
            of_logits = p.neg_()
            of_logits[torch.arange(len(of_logits)), context.tokens.token_ids[block]] += 1
            of_logits *= gradients[0][block, None] / divisors
            if others is not None:
                of_logits += others
            with torch.autocast(hidden.device.type, enabled=False):
                of_hidden[block] = (of_logits @ weight.to(of_logits.dtype)).to(hidden.dtype)
                if of_weight is not None:
                    of_weight.addmm_(of_logits.T, hidden[block].to(of_logits.dtype))
            if of_bias is not None:
                of_bias += of_logits.sum(0)
        cast_weight = None if of_weight is None else of_weight.to(weight.dtype)
        return of_hidden, cast_weight, None if of_bias is None else of_bias.to(bias.dtype), *(None,) * 4


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _blocks(num_tokens: int, vocabulary: int) -> list[slice]:
    size = max(1, LOGITS_AT_ONCE // vocabulary)
    return [slice(start, min(start + size, num_tokens)) for start in range(0, num_tokens, size)]


def _log_softmax(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperatures: Tensor) -> Tensor:
    """Log-probabilities of the whole vocabulary for one block, at the temperatures of its tokens, in float32.

    torch's own log_softmax, as serving engines and transformers use it: on CPU it loses the small terms of a sum over
    a large vocabulary (4e-5 nats at most, measured 2026-11-30 on 49k words), and the same loss on both sides cancels.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        wide = _wide(hidden)
        logits = functional.linear(hidden.to(wide), weight.to(wide), None if bias is None else bias.to(wide))
        return torch.log_softmax(logits.div_(temperatures[:, None]), dim=-1)
