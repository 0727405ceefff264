"""What is told of an update: figures that every method has, the row of `updates`, and one line for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import torch

from schemas.update import UPDATES
from train.metrics import finite

if TYPE_CHECKING:
    from train.methods.update import Update

_UNLESS_MOVED = ("loss", "grad_norm")
"""Figures of a step: of an update that made none they are placeholders."""


def common_figures(update: Update) -> dict[str, float]:
    """Figures that do not depend on the method, under one name for all; NaN where the method has no such thing.

    mean_drift: mean over traces, in nats a token. masked_token_share: share of action tokens whose importance ratio the
    method made 0. mean_surprise: minus the mean logged log-probability of action tokens, in nats, which is what the
    entropy of the behavior policies comes to on the tokens that they sampled.
    """
    mask = update.batch.action_mask
    num_tokens = int(torch.count_nonzero(mask))
    masked = surprise = math.nan
    if update.weights is not None:
        masked = int(torch.count_nonzero(mask & (update.weights == 0))) / num_tokens
    logged = update.batch.behavior_logprobs
    if logged is not None:
        surprise = -float(logged[mask].double().mean())
    drift = update.drift
    return {
        "mean_drift": math.nan if drift is None else float(drift.double().nanmean()),
        "masked_token_share": masked,
        "mean_surprise": surprise,
    }


def update_row(
    number: int, figures: Mapping[str, Any], *, run_id: str, method: str, replayed_at: datetime
) -> dict[str, Any]:
    """The row of `updates` for update `number` of the run, from 0; what is not finite or not there is null."""
    waits = bool(figures.get("is_critic_warming_up", False))
    given = {
        **figures,
        "run_id": run_id,
        "step": number,
        "method": method,
        "is_critic_warming_up": waits,
        "in_trust_share": None if waits else figures["num_in_trust"] / figures["num_traces"],
        "replayed_at": replayed_at,
    }
    if not figures["moved"]:
        given |= dict.fromkeys(_UNLESS_MOVED)
    return {column.name: finite(given.get(column.name)) for column in UPDATES.columns}


def progress_line(figures: Mapping[str, Any]) -> str:
    """What one update came to, for the line beside the progress bar; what it does not have is left out."""
    waits = figures.get("is_critic_warming_up", False)
    trusted = "the critic warms up" if waits else f"{figures['num_in_trust']}/{figures['num_traces']} in trust"
    parts = [
        *([_told("loss", figures, "loss")] if figures["moved"] else []),
        _told("drift", figures, "mean_drift"),
        trusted,
        _told("masked", figures, "masked_token_share", percent=True),
        *([_told("gradient", figures, "grad_norm")] if figures["moved"] else []),
        _told("explained", figures, "critic_explained_variance"),
        _speed(figures),
        _told("MFU", figures, "mfu", percent=True),
    ]
    return ", ".join(part for part in parts if part)


def _told(label: str, figures: Mapping[str, Any], name: str, *, percent: bool = False) -> str:
    value = finite(figures.get(name))
    if value is None:
        return ""
    return f"{label} {100 * value:.3g}%" if percent else f"{label} {value:.3g}"


def _speed(figures: Mapping[str, Any]) -> str:
    value = finite(figures.get("tokens_per_second"))
    return "" if value is None else f"{value:,.0f} tokens/s"
