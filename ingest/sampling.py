"""The sampling parameters that decide which distribution a token was drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from pydantic import Field

from schemas.settings import Settings


class SamplingDefaults(Settings):
    """What the server takes for a sampling parameter that a request leaves out."""

    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature. Convention, untested: unknown unless stated."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus bound. Convention, untested: unknown unless stated."""

    top_k: int | None = Field(default=None, ge=-1)
    """Top-k bound, -1 or 0 when off. Convention, untested: unknown unless stated."""

    min_p: float | None = Field(default=None, ge=0, le=1)
    """Least probability relative to the likeliest token, 0 when off. Convention, untested: unknown unless stated."""

    repetition_penalty: float | None = Field(default=None, gt=0)
    """Repetition penalty, 1 when off. Convention, untested: unknown unless stated."""


NEUTRAL = SamplingDefaults(temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0, repetition_penalty=1.0)
"""vLLM's own defaults, in force under --generation-config vllm. vLLM 0.33, docs/formats.md."""


PARAMETERS = tuple(SamplingDefaults.model_fields)


def parameters_of(sampling: Mapping[str, Any]) -> tuple[float | None, ...]:
    """The five parameters as logged; what is no number that a server could take is unknown."""
    values = [_number(sampling.get(name)) for name in PARAMETERS]
    top_k = PARAMETERS.index("top_k")
    given = values[top_k]
    if given is not None and not (given == int(given) and abs(given) < 2**31):
        values[top_k] = None
    return tuple(values)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number and isfinite(value) else None
    except OverflowError:  # an integer beyond any double
        return None
