"""Equations of the methods with a critic: bounded values, credit over action tokens, targets.

A value V_t belongs to the prefix before token t, so that it cannot know the token that it judges. Credit is computed in
float64 on the axis of action tokens [A], each trace in time order across its sequences; observation tokens are skipped,
their values never read.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from train.action_axis import ActionAxis


def bounded_values(raw: Tensor, low: float, high: float) -> Tensor:
    """V = low + (high - low) (1/2 + atan(z) / pi): a critic's raw output z within the reward range. BPCO, Eq. 9."""
    # Rounding may leave the range by a last digit, beyond which a value is refused.
    return (low + (high - low) * (0.5 + torch.atan(raw) / math.pi)).clamp(low, high)


def raw_values(values: Tensor, low: float, high: float) -> Tensor:
    """Inverse of `bounded_values`: z = tan(pi ((V - low) / (high - low) - 1/2)), to start a head at a value."""
    return torch.tan(math.pi * ((values - low) / (high - low) - 0.5))


def length_adaptive_lambdas(num_action_tokens: Tensor, alpha: float, *, floored: bool = True) -> Tensor:
    """Decay of each trace: lambda = 1 - 1 / (alpha T); [B] in float64. VAPO, arXiv:2504.05118; BPCO, Eq. 14.

    Below T = 1/alpha it is negative; `floored` puts it at 0.
    """
    lambdas = 1.0 - 1.0 / (alpha * num_action_tokens.to(torch.float64))
    return lambdas.clamp(min=0.0) if floored else lambdas


def tokens_after(actions: ActionAxis) -> Tensor:
    """Action tokens of the same trace that follow each of the A; [A]."""
    ends = actions.of_traces(torch.cumsum(actions.counts, 0))
    return ends - torch.arange(len(actions), device=ends.device) - 1


def discounted_suffix_sums(values: Tensor, decays: Tensor, after: Tensor) -> Tensor:
    """Sums ahead: sum_k decay^k x_(t+k) within each trace, `after` tokens far; all [A].

    By doubling: after each pass a sum reaches twice as far, so that log2(T) passes do.
    """
    sums, powers, reach = values.clone(), decays, 1
    longest = int(after.max())
    while reach <= longest:
        ahead = powers[:-reach] * sums[reach:]
        sums[:-reach] += torch.where(after[:-reach] >= reach, ahead, 0.0)
        powers, reach = powers * powers, 2 * reach
    return sums


def skip_observation_advantages(
    values: Tensor, rewards: Tensor, actions: ActionAxis, gamma: float, lambdas: Tensor
) -> Tensor:
    """GAE over action tokens alone, bootstrapping over observations; `values` [A] to [A] in float64.

        delta_t = r_t + gamma V_(t+1) - V_t        t + 1 is the next action token; V past the last one is 0
        A_t     = delta_t + gamma lambda A_(t+1)

    The reward [B] stands on the last action token, whatever follows it. `lambdas` [B]. SAO, Eq. 4 and 5.
    """
    own, after = values.to(torch.float64), tokens_after(actions)
    following = torch.nn.functional.pad(own[1:], (0, 1))
    deltas = torch.where(after == 0, actions.of_traces(rewards), gamma * following) - own
    return discounted_suffix_sums(deltas, actions.of_traces(gamma * lambdas), after)


def value_targets(rewards: Tensor, mask: Tensor, trace_index: Tensor, counts: Tensor, gamma: float) -> Tensor:
    """Monte-Carlo return at every token, gamma^(action tokens still to come) R; [N] in float64. SAO and BPCO, lambda 1.

    A token off the mask has the return of the next action token, the plain reward after the last one. `counts` [B] are
    the action tokens of each trace.
    """
    if gamma == 1.0:
        return rewards.index_select(0, trace_index)
    order = torch.argsort(trace_index, stable=True)
    acted = torch.cumsum(mask[order].to(torch.int64), 0)
    before = torch.cumsum(counts, 0) - counts
    to_come = torch.empty_like(trace_index)
    ordered_traces = trace_index[order]
    to_come[order] = (before + counts)[ordered_traces] - acted + mask[order].to(torch.int64)
    exponents = (to_come - 1).clamp(min=0).to(torch.float64)
    return rewards[trace_index] * torch.full_like(exponents, gamma).pow(exponents)


def value_loss(
    values: Tensor, targets: Tensor, mask: Tensor, *, old_values: Tensor | None = None, clip: float | None = None
) -> Tensor:
    """Half the mean squared error over action tokens; carries the graph of `values` [N]. BPCO, Eq. 6.

    With `clip` and the values before the step, PPO's clipped form: the larger of the errors of V and of V kept within
    `clip` of its old value.
    """
    errors = torch.where(mask, values - targets, 0.0) ** 2
    if clip is not None and old_values is not None:
        kept_near = torch.where(mask, old_values + (values - old_values).clamp(-clip, clip) - targets, 0.0)
        errors = torch.maximum(errors, kept_near**2)
    return 0.5 * errors.sum() / mask.sum()


def explained_variance(returns: Tensor, values: Tensor, mask: Tensor | None = None) -> float:
    """1 - Var(R - V) / Var(R) over action tokens; NaN when all returns are one number. BPCO, Eq. 10.

    Both [N] with a mask [N] that says which those are, or [A] of action tokens alone.
    """
    if mask is not None:
        acted = mask.nonzero().flatten()
        returns, values = returns.index_select(0, acted), values.index_select(0, acted)
    chosen = returns.to(torch.float64)
    if not len(chosen) or bool((chosen == chosen[0]).all()):
        return math.nan
    residuals = chosen - values.to(torch.float64)
    return 1.0 - float(residuals.var(correction=0) / chosen.var(correction=0))
