"""What a trainer calls each rule of the ratio: its settings under which its loss is that rule, or why none are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from train.methods import corrections
from train.methods.corrections import Correction

NEVER = 1e9
"""Stands for an infinite bound where a trainer wants a number: above e^20, where verl cuts its ratios."""

Named = dict[str, Any]
"""Settings of a trainer, by the names that it has for them."""


def rule_settings(trainer: str, correction: Correction) -> Named | str:
    """The settings under which the trainer weighs a ratio by this rule, or in words why it does not."""
    known = _RULES[trainer].get(type(correction))
    return known(correction) if known is not None else _NO_SUCH_RULE[trainer]


def _prime_rl_loss(**loss: float | str) -> Named:
    return {f"loss.{name}": value for name, value in loss.items()} | {"loss.adv_tau": 1.0, "loss.kl_tau": 0.0}


def _prime_rl_importance(_: Correction) -> Named:
    # A probability cannot move by more than 1, so that these masks stay open.
    return _prime_rl_loss(type="default", dppo_mask_low=1.0, dppo_mask_high=1.0)


def _prime_rl_dppo(rule: corrections.DPPOTV) -> Named | str:
    if not math.isinf(rule.truncate):
        return f"truncated at {rule.truncate:g}, and its DPPO loss does not truncate the ratio"
    return _prime_rl_loss(type="default", dppo_mask_low=rule.low, dppo_mask_high=rule.high)


def _prime_rl_ipo(rule: corrections.IPO) -> Named:
    return _prime_rl_loss(type="ipo", ipo_threshold=rule.bound)


def _trl_ppo(rule: corrections.PPO) -> Named | str:
    if not math.isinf(rule.dual):
        return f"with a dual clip at {rule.dual:g}, and its AsyncGRPOTrainer has none"
    return {"epsilon": rule.low, "epsilon_high": min(rule.high, NEVER)}


def _verl_actor(**actor: float | str) -> Named:
    return {f"actor_rollout_ref.actor.{name.replace('__', '.')}": value for name, value in actor.items()}


def _verl_bypass(**correction: Any) -> Named:
    both = {"bypass_mode": True, "rollout_rs": None, "rollout_is": None, "rollout_is_batch_normalize": False}
    named = {f"algorithm.rollout_correction.{name}": value for name, value in (both | correction).items()}
    return named | _verl_actor(policy_loss__loss_mode="bypass_mode")


def _verl_none(_: Correction) -> Named:
    return _verl_bypass(loss_type="reinforce")


def _verl_importance(_: Correction) -> Named:
    return _verl_bypass(loss_type="reinforce", rollout_is="token", rollout_is_threshold=NEVER)


def _verl_tis(rule: corrections.TIS) -> Named | str:
    if rule.low or not rule.high:
        return f"between {rule.low:g} and {rule.high:g}, and its rollout_is clamps from above alone, above 0"
    return _verl_bypass(loss_type="reinforce", rollout_is="token", rollout_is_threshold=min(rule.high, NEVER))


def _verl_icepop(rule: corrections.IcePop) -> Named | str:
    if not rule.low:
        return "without a lower bound, and its rollout_is masks between two bounds above 0"
    bounds = f"{rule.low!r}_{min(rule.high, NEVER)!r}"
    return _verl_bypass(loss_type="reinforce", rollout_is="token", rollout_is_threshold=bounds)


def _verl_ppo(rule: corrections.PPO) -> Named | str:
    if rule.dual <= 1.0:
        return "with a dual clip at 1, and its clip_ratio_c has to be above 1"
    clip = _verl_clip(rule.low, rule.high, rule.dual)
    return _verl_bypass(loss_type="ppo_clip") | clip


def _verl_dppo_tv(rule: corrections.DPPOTV) -> Named:
    return _verl_actor(policy_loss__loss_mode="dppo_tv") | _verl_clip(rule.low, rule.high, rule.truncate)


def _verl_dppo_kl(rule: corrections.DPPOKL) -> Named:
    return _verl_actor(policy_loss__loss_mode="dppo_kl") | _verl_clip(rule.low, rule.high, math.inf)


def _verl_cispo(rule: corrections.CISPO) -> Named:
    return _verl_actor(policy_loss__loss_mode="cispo") | _verl_clip(rule.low, rule.high, math.inf)


def _verl_clip(low: float, high: float, largest: float) -> Named:
    low, high, largest = (min(bound, NEVER) for bound in (low, high, largest))
    return _verl_actor(clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=largest)


_RULES: Mapping[str, Mapping[type, Callable[[Any], Named | str]]] = {
    "prime-rl": {
        corrections.ImportanceSampling: _prime_rl_importance,
        corrections.DPPOTV: _prime_rl_dppo,
        corrections.IPO: _prime_rl_ipo,
    },
    "trl": {corrections.PPO: _trl_ppo},
    "verl": {
        corrections.NoCorrection: _verl_none,
        corrections.ImportanceSampling: _verl_importance,
        corrections.TIS: _verl_tis,
        corrections.IcePop: _verl_icepop,
        corrections.PPO: _verl_ppo,
        corrections.DPPOTV: _verl_dppo_tv,
        corrections.DPPOKL: _verl_dppo_kl,
        corrections.CISPO: _verl_cispo,
    },
}

_NO_SUCH_RULE = {
    "prime-rl": "and its losses (default, ipo) weigh a token by its ratio, masked by how far its probability moved: "
    "only the corrections is, dppo_tv and ipo are that",
    "trl": "and its AsyncGRPOTrainer, which alone takes logged log-probabilities, has one loss, PPO's "
    "clipped ratio: only the correction ppo is that",
    "verl": "for which no loss of its core_algos.py was found to be the same arithmetic: none, is, tis, icepop, ppo, "
    "dppo_tv, dppo_kl and cispo were",
}
