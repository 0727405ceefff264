"""Each equation once, as a pure function on packed tensors.

[N] is the token axis, [B] the traces; `trace_index` [N] says which trace a token belongs to. Logarithms are natural.
What lies off a mask is replaced before any function is applied to it, so that NaN there reaches nothing. Without a mask
all tokens count, as they do on the axis of action tokens alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

PROBABILITY_FLOOR = 1e-6
"""Probabilities are clamped to [floor, 1 - floor] inside the Bernoulli KL. FlashREINFORCE reference code, loss.py."""

LARGEST_EXPONENT = 700.0
"""Beyond this a number is not raised to e in a diagnostic or a bound: exp overflows float64 at 709.8."""

PART = 32_768
"""Tokens that a CPU takes at a time through a chain of operations, so that what they make stays in its cache. torch
gives no more to one thread alone, ATen/Parallel.h, so that nothing waits for another thread in between. Convention,
untested beyond that."""


def by_parts(function: Callable[..., Tensor], *tokens: Tensor) -> Tensor:
    """What `function` makes of tokens [N] one by one, on a CPU some thousand at a time; the same numbers."""
    num, size = len(tokens[0]), part_size(tokens[0])
    made = function(*(each[:size] for each in tokens))
    if num <= size:
        return made
    # Written to one place as they are made: parts that were kept until the end would leave the cache.
    whole = made.new_empty(num)
    whole[:size] = made
    for start in range(size, num, size):
        whole[start : start + size] = function(*(each[start : start + size] for each in tokens))
    return whole


def selected(values: Tensor, mask: Tensor | None, off: float = 0.0) -> Tensor:
    """The values on masked-in tokens, `off` elsewhere; the values themselves without a mask. [N]."""
    return values if mask is None else torch.where(mask, values, off)


def part_size(tokens: Tensor) -> int:
    """How many tokens of [N] to take at a time: all of them where there is no cache to stay in."""
    return PART if tokens.device.type == "cpu" else max(1, len(tokens))


def trace_sums(values: Tensor, trace_index: Tensor, num_traces: int) -> Tensor:
    """Sum over the tokens of each trace; [N] to [B] in float64."""
    sums = torch.zeros(num_traces, dtype=torch.float64, device=values.device)
    return sums.index_add_(0, trace_index, values.to(torch.float64))


def trace_means(values: Tensor, mask: Tensor | None, trace_index: Tensor, num_action_tokens: Tensor) -> Tensor:
    """Mean over the masked-in tokens of each trace, (1/T) sum_t; [N] to [B] in float64, NaN where T is 0.

    `mask` says which tokens are summed; T is `num_action_tokens` [B], whatever the mask leaves out.
    """
    sums = trace_sums(selected(values, mask), trace_index, len(num_action_tokens))
    return sums / num_action_tokens


def trace_maxima(values: Tensor, mask: Tensor | None, trace_index: Tensor, num_traces: int) -> Tensor:
    """Largest masked-in value of each trace; [N] to [B], -inf where there is none."""
    lowest = torch.full((num_traces,), -math.inf, dtype=values.dtype, device=values.device)
    return lowest.scatter_reduce(0, trace_index, selected(values, mask, -math.inf), "amax")


def traces_with(tokens: Tensor, trace_index: Tensor, num_traces: int) -> Tensor:
    """True on traces with at least one token that is True; [N] to [B]."""
    none = torch.zeros(num_traces, dtype=torch.uint8, device=tokens.device)
    return none.scatter_reduce(0, trace_index, tokens.view(torch.uint8), "amax").view(torch.bool)


def masked_mean(values: Tensor, mask: Tensor) -> float:
    """Mean of the masked-in values, in float64; NaN when the mask is empty."""
    return mean_over(torch.where(mask, values, 0.0), int(torch.count_nonzero(mask)))


def mean_over(values: Tensor, count: int) -> float:
    """Mean over `count` values, the others being 0, for a report; NaN when there are none.

    Some thousand are added at a time in their own type, by halves as torch does, and those sums in float64.
    """
    if not count:
        return math.nan
    sums = [part.sum() for part in torch.split(values, part_size(values))]
    return float(torch.stack(sums).sum(dtype=torch.float64)) / count


def batch_mean_advantages(rewards: Tensor, mean_reward: float) -> Tensor:
    """A = R - (1/B) sum_j R_j over the whole batch, masked traces included; [B]. FlashREINFORCE, Eq. 5."""
    return rewards - mean_reward


def log_ratios(logprobs: Tensor, behavior_logprobs: Tensor, mask: Tensor | None = None) -> Tensor:
    """Log-ratio of each token: log rho = log pi - log mu on masked-in tokens, 0 elsewhere; [N] in nats."""
    return selected(logprobs - behavior_logprobs, mask)


def importance_ratios(log_ratios: Tensor, mask: Tensor | None = None) -> Tensor:
    """Ratio of each token: rho = exp(log rho) on masked-in tokens, 0 elsewhere; [N], infinite where it overflows."""
    return torch.exp(selected(log_ratios, mask, -math.inf))


def probability_moves(logprobs: Tensor, behavior_logprobs: Tensor) -> Tensor:
    """Move of each token: pi - mu of the sampled token; [N], to the last digit of a probability in their type."""
    return by_parts(lambda current, behavior: torch.exp(current) - torch.exp(behavior), logprobs, behavior_logprobs)


def moved_with_advantage(
    moved: Tensor, rising: Tensor, falling: Tensor, down: Tensor | float, up: Tensor | float
) -> Tensor:
    """True where a token moved beyond its bound in the direction in which its advantage pushes it; [N].

    Above `up` where the advantage is `rising`, below -`down` where it is `falling`. The gradient of PPO's clipped
    minimum, and of DPPO's, arXiv:2602.04879, is 0 exactly there.
    """
    return (rising & (moved > up)) | (falling & (moved < -down))


def bernoulli_kl(behavior_logprobs: Tensor, logprobs: Tensor) -> Tensor:
    """Per-token KL between two coins: "the sampled token" against "any other".

    Both [N], natural log; returns [N] in nats and float64, exactly 0 where they agree. Probabilities are clamped to
    [1e-6, 1 - 1e-6], so two tokens that are rarer than that count as equal whatever their ratio. A lower bound on
    the full categorical KL, so a small value is no certificate. FlashREINFORCE, Eq. 6.
    """
    log_mu, log_pi = (_clamped(values) for values in (behavior_logprobs, logprobs))
    one_minus_mu, one_minus_pi = -torch.expm1(log_mu), -torch.expm1(log_pi)
    return torch.exp(log_mu) * (log_mu - log_pi) + one_minus_mu * torch.log(one_minus_mu / one_minus_pi)


def guarded_kl(behavior_logprobs: Tensor, logprobs: Tensor, guard: float) -> Tensor:
    """Bernoulli KL with `guard` added to both complements instead of clamping; [N] in the type that it is given.

    DPPO, arXiv:2602.04879: mu log(mu/pi) + (1 - mu) log((1 - mu + guard) / (1 - pi + guard)). In float32 it is right to
    1e-6 nats: enough for a bound of 0.05 on single tokens, not for a mean that has to stay below 0.003.
    """

    def kl(log_mu: Tensor, log_pi: Tensor) -> Tensor:
        one_minus_mu, one_minus_pi = torch.expm1(log_mu).neg_(), torch.expm1(log_pi).neg_()
        complement = ((one_minus_mu + guard) / one_minus_pi.add_(guard)).log_()
        return torch.exp(log_mu).mul_(log_mu - log_pi).addcmul_(one_minus_mu, complement)

    return by_parts(kl, behavior_logprobs, logprobs)


def mean_drift(behavior_logprobs: Tensor, logprobs: Tensor, trace_index: Tensor, counts: Tensor) -> Tensor:
    """D = (1/T) sum_t of the Bernoulli KL over the action tokens [A] of each trace; [B] in nats a token, never below 0.

    `counts` [B] holds T; D is NaN for a trace without action tokens. FlashREINFORCE, Eq. 7.
    """
    sums = trace_sums(by_parts(bernoulli_kl, behavior_logprobs, logprobs), trace_index, len(counts))
    return (sums / counts).clamp(min=0.0)


def top_entropy_tokens(entropies: Tensor, mask: Tensor, trace_index: Tensor, num_kept: Tensor) -> Tensor:
    """True on the `num_kept` [B] masked-in tokens of highest entropy of each trace; the earlier one where two tie. [N].

    FlashREINFORCE reference code, `negative_token_fraction`.
    """
    keys = torch.where(mask, entropies.to(torch.float64), -math.inf)
    order = torch.argsort(keys, descending=True, stable=True)
    order = order[torch.argsort(trace_index[order], stable=True)]
    sizes = torch.bincount(trace_index, minlength=len(num_kept))
    starts = torch.cumsum(sizes, 0) - sizes
    ranks = torch.empty_like(trace_index)
    ranks[order] = torch.arange(len(order), device=order.device) - starts[trace_index[order]]
    return mask & (ranks < num_kept[trace_index])


def normalisers(aggregation: str, num_action_tokens: Tensor, num_traces: int, num_tokens: int) -> Tensor:
    """What each token of a trace is divided by, as a factor; [B] in float64.

    "token_mean" 1/N over the action tokens of the batch; "trace_mean" 1/(T B); "trace_sum" 1/B.
    """
    ones = torch.ones(len(num_action_tokens), dtype=torch.float64, device=num_action_tokens.device)
    if aggregation == "token_mean":
        return ones / num_tokens
    return ones / (num_traces * num_action_tokens if aggregation == "trace_mean" else num_traces)


def bpo_weights(logprobs: Tensor, behavior_logprobs: Tensor, epsilon: float) -> Tensor:
    """Weight of each token: omega = (1 + eps - mu) / (1 + eps - pi); [N].

    Between 0 and (1 + eps) / eps, and above 1 exactly where pi > mu. It compares what is left to the other tokens, so
    a token that is rare under both policies has 1, whatever its ratio. BPO, arXiv:2609.15987.
    """

    def weights(current: Tensor, behavior: Tensor) -> Tensor:
        return (epsilon - torch.expm1(behavior)) / (epsilon - torch.expm1(current))

    return by_parts(weights, logprobs, behavior_logprobs)


def _clamped(logprobs: Tensor) -> Tensor:
    """Log-probabilities in float64 with their probabilities clamped to [floor, 1 - floor]."""
    ceiling = 1.0 - PROBABILITY_FLOOR  # Rounded: 1 - ceiling is 2.9e-11 off the floor, and the clamped KL with it.
    return logprobs.to(torch.float64).clamp(math.log(PROBABILITY_FLOOR), math.log1p(-(1.0 - ceiling)))
