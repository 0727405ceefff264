"""The base of every settings class: frozen, closed, its field docstrings readable by a program."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A group of settings; a name that it does not know is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )


def dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names, after `prefix`; a group without a setting stays, as {}."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= dotted(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else {prefix + name: value}
    return flat
