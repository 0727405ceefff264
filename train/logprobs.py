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


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """What one pass over the vocabulary says of the A action tokens; all [A], float32, in nats."""

    logprobs: Tensor
    """Natural-log probabilities; carries the graph when there is one."""
    entropies: Tensor | None
    """Entropy of each token's distribution, a constant; None unless asked for."""
    expected_logprobs: Tensor | None
    """Sum over the vocabulary of q log p, q being the behavior policy's distribution; carries the graph of p."""
    expected_behavior_logprobs: Tensor | None
    """Sum over the vocabulary of q log q, a constant."""


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    tokens: ActionTokens,
    *,
    with_entropies: bool = False,
    behavior_hidden: Tensor | None = None,
) -> TokenScores:
    """What the policy says of each action token, at the token's own temperature.

    `hidden` [A, H] are the final hidden states at `tokens.slots`, `weight` [V, H] and `bias` [V] the head;
    `behavior_hidden` [A, H] are the states of the policy that wrote the tokens, under the same head, where expectations
    under it are wanted. The softmax is in float32 whatever autocast says. [A, V] is never held: blocks of tokens are
    projected, and projected again on the way back.
    """
    logprobs, entropies, expected, own = _BlockwiseLogprobs.apply(  # type: ignore[no-untyped-call]  # torch has no type for it
        hidden, weight, bias, behavior_hidden, tokens, with_entropies
    )
    expects = behavior_hidden is not None
    return TokenScores(
        logprobs,
        entropies if with_entropies else None,
        expected if expects else None,
        own if expects else None,
    )


class _BlockwiseLogprobs(torch.autograd.Function):
    """Saves hidden states and head; the log-softmax of a block is computed again in backward."""

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917 - autograd functions take their tensors one by one
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        behavior_hidden: Tensor | None,
        tokens: ActionTokens,
        with_entropies: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        entropies, expected, own = (torch.empty_like(logprobs) for _ in range(3))
        for block in _blocks(len(hidden), len(weight)):
            log_softmax = _log_softmax(hidden[block], weight, bias, tokens.temperatures[block])
            logprobs[block] = log_softmax.gather(-1, tokens.token_ids[block, None])[:, 0]
            if with_entropies:
                entropies[block] = -(log_softmax.exp() * log_softmax).sum(-1)
            if behavior_hidden is not None:
                log_q = _log_softmax(behavior_hidden[block], weight, bias, tokens.temperatures[block])
                q = log_q.exp()
                expected[block], own[block] = (q * log_softmax).sum(-1), (q * log_q).sum(-1)
        context.save_for_backward(hidden, weight, bias, behavior_hidden)
        context.tokens = tokens
        context.mark_non_differentiable(entropies, own, *(() if behavior_hidden is not None else (expected,)))
        return logprobs, entropies, expected, own

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, behavior_hidden = context.saved_tensors
        token_ids, temperatures = context.tokens.token_ids, context.tokens.temperatures
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if context.needs_input_grad[1] else None
        of_bias = torch.zeros_like(bias, dtype=torch.float32) if context.needs_input_grad[2] else None
        for block in _blocks(len(hidden), len(weight)):
            # d log p / d logits = (one-hot - p) / temperature
            of_logits = _log_softmax(hidden[block], weight, bias, temperatures[block]).exp_()
            of_expected = None
            if behavior_hidden is not None:
                # d sum q log p / d logits = (q - p) / temperature
                of_expected = _log_softmax(behavior_hidden[block], weight, bias, temperatures[block]).exp_()
                of_expected.sub_(of_logits).mul_((gradients[2][block] / temperatures[block])[:, None])
            of_logits.neg_()
            of_logits[torch.arange(len(of_logits)), token_ids[block]] += 1
            of_logits *= (gradients[0][block] / temperatures[block])[:, None]
            if of_expected is not None:
                of_logits += of_expected
            with torch.autocast(hidden.device.type, enabled=False):
                of_hidden[block] = (of_logits @ weight.float()).to(hidden.dtype)
                if of_weight is not None:
                    of_weight.addmm_(of_logits.T, hidden[block].float())
            if of_bias is not None:
                of_bias += of_logits.sum(0)
        cast_weight = None if of_weight is None else of_weight.to(weight.dtype)
        return of_hidden, cast_weight, None if of_bias is None else of_bias.to(bias.dtype), None, None, None


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
