"""Log-probabilities of action tokens: the next-token shift, the logged temperature and the head, once for all.

Nothing else in the project shifts a token axis or divides by a temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


def token_logprobs(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, tokens: ActionTokens, *, with_entropies: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Log-probability of each action token and, if asked for, entropy of its distribution: [A], float32, in nats.

    `hidden` [A, H] are the final hidden states at `tokens.slots`, `weight` [V, H] and `bias` [V] the head. The softmax
    is in float32 whatever autocast says, at the token's own temperature. [A, V] is never held: blocks of tokens are
    projected, and projected again on the way back. The entropies carry no gradient.
    """
    logprobs, entropies = _BlockwiseLogprobs.apply(  # type: ignore[no-untyped-call]  # torch has no type for it
        hidden, weight, bias, tokens, with_entropies
    )
    return logprobs, entropies if with_entropies else None


class _BlockwiseLogprobs(torch.autograd.Function):
    """Saves hidden states and head; the log-softmax of a block is computed again in backward."""

    @staticmethod
    def forward(
        context: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, tokens: ActionTokens, with_entropies: bool
    ) -> tuple[Tensor, Tensor]:
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        entropies = torch.empty_like(logprobs)
        for block in _blocks(len(hidden), len(weight)):
            log_softmax = _log_softmax(hidden[block], weight, bias, tokens.temperatures[block])
            logprobs[block] = log_softmax.gather(-1, tokens.token_ids[block, None])[:, 0]
            if with_entropies:
                entropies[block] = -(log_softmax.exp() * log_softmax).sum(-1)
        context.save_for_backward(hidden, weight, bias)
        context.tokens = tokens
        context.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = context.saved_tensors
        token_ids, temperatures = context.tokens.token_ids, context.tokens.temperatures
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if context.needs_input_grad[1] else None
        of_bias = torch.zeros_like(bias, dtype=torch.float32) if context.needs_input_grad[2] else None
        for block in _blocks(len(hidden), len(weight)):
            # d logprob / d logits = (one-hot - softmax) / temperature
            of_logits = _log_softmax(hidden[block], weight, bias, temperatures[block]).exp_().neg_()
            of_logits[torch.arange(len(of_logits)), token_ids[block]] += 1
            of_logits *= (gradients[0][block] / temperatures[block])[:, None]
            with torch.autocast(hidden.device.type, enabled=False):
                of_hidden[block] = (of_logits @ weight.float()).to(hidden.dtype)
                if of_weight is not None:
                    of_weight.addmm_(of_logits.T, hidden[block].float())
            if of_bias is not None:
                of_bias += of_logits.sum(0)
        cast_weight = None if of_weight is None else of_weight.to(weight.dtype)
        return of_hidden, cast_weight, None if of_bias is None else of_bias.to(bias.dtype), None, None


def _blocks(num_tokens: int, vocabulary: int) -> list[slice]:
    size = max(1, LOGITS_AT_ONCE // vocabulary)
    return [slice(start, min(start + size, num_tokens)) for start in range(0, num_tokens, size)]


def _log_softmax(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperatures: Tensor) -> Tensor:
    """Log-probabilities of the whole vocabulary for one block, at the temperatures of its tokens, in float32.

    torch's own log_softmax, as serving engines and transformers use it: on CPU it loses the small terms of a sum over
    a large vocabulary (4e-5 nats at most, measured 2026-11-30 on 49k words), and the same loss on both sides cancels.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        logits = torch.nn.functional.linear(hidden.float(), weight.float(), None if bias is None else bias.float())
        return torch.log_softmax(logits.div_(temperatures[:, None]), dim=-1)
