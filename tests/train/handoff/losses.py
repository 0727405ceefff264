"""The losses of other trainers, written out from their sources, on the action tokens of a batch: [N] each.

Each is what the trainer averages over the N action tokens, before it does; `settings` are read as the trainer names
them.
"""

import torch


def trl(logprobs, old, advantages, settings):
    """TRL 1.16.0, trl/experimental/async_grpo/async_grpo_trainer.py, compute_loss."""
    ratio = torch.exp(logprobs - old)
    clipped = torch.clamp(ratio, 1 - settings["epsilon"], 1 + settings["epsilon_high"])
    return -torch.min(ratio * advantages, clipped * advantages)


def prime_rl(logprobs, old, advantages, settings):
    """prime-rl 559b4477, src/prime_rl/trainer/rl/loss.py, default_loss_fn and ipo_loss_fn."""
    log_ratio = logprobs - old
    moved = torch.exp(logprobs) - torch.exp(old)
    if settings["loss.type"] == "ipo":
        masked = moved.abs() > settings["loss.ipo_threshold"]
    else:
        too_high, too_low = moved > settings["loss.dppo_mask_high"], moved < -settings["loss.dppo_mask_low"]
        masked = torch.where(advantages > 0, too_high, too_low)
    gradient = ~masked * (settings["loss.adv_tau"] * advantages) * torch.exp(log_ratio)
    return -gradient + settings["loss.kl_tau"] * log_ratio**2


def verl(logprobs, old, advantages, settings):
    """Verl 0.9.1, verl/trainer/ppo/core_algos.py, by loss_mode; bypass_mode with rollout_corr_helper.py."""
    actor = {name.removeprefix("actor_rollout_ref.actor."): value for name, value in settings.items()}
    mode = actor["policy_loss.loss_mode"]
    ratio = torch.exp(torch.clamp(logprobs - old, min=-20.0, max=20.0))
    if mode == "bypass_mode":
        rule = {name.removeprefix("algorithm.rollout_correction."): value for name, value in settings.items()}
        if rule["loss_type"] == "ppo_clip":
            return _verl_clipped(ratio, advantages, actor)
        return -advantages * logprobs * _verl_weights(ratio.detach(), rule)
    low, high, largest = (actor[name] for name in ("clip_ratio_low", "clip_ratio_high", "clip_ratio_c"))
    if mode == "cispo":
        return -torch.clamp(ratio, 1 - low, 1 + high).detach() * advantages * logprobs
    pi, mu = torch.exp(logprobs), torch.exp(old)
    if mode == "dppo_tv":
        up, down = (pi - mu) <= high, (pi - mu) >= -low
    else:
        kl = mu * (old - logprobs) + (1 - mu) * torch.log((1.0 - mu + 1e-8) / (1.0 - pi + 1e-8))
        up, down = (kl <= high) | (pi <= mu), (kl <= low) | (pi >= mu)
    valid = torch.where(advantages > 0, up, down).detach().to(ratio.dtype)
    return -advantages * torch.clamp(ratio, max=largest).detach() * logprobs * valid


def _verl_clipped(ratio, advantages, actor):
    clipped = torch.clamp(ratio, 1 - actor["clip_ratio_low"], 1 + actor["clip_ratio_high"])
    larger = torch.maximum(-advantages * ratio, -advantages * clipped)
    return torch.where(advantages < 0, torch.min(-advantages * actor["clip_ratio_c"], larger), larger)


def _verl_weights(ratio, rule):
    threshold = rule["rollout_is_threshold"] if rule["rollout_is"] == "token" else None
    if threshold is None:
        return torch.ones_like(ratio)
    if isinstance(threshold, str):
        low, high = (float(part) for part in threshold.split("_"))
        return torch.where((ratio >= low) & (ratio <= high), ratio, torch.zeros_like(ratio))
    return ratio.clamp(max=threshold)


LOSSES = {"trl": trl, "prime-rl": prime_rl, "verl": verl}
