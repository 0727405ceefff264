"""Which methods the trainer can run. Known without torch, so that a settings file is refused when it is loaded."""

from __future__ import annotations

from types import MappingProxyType

from schemas.errors import SettingsError

UNMET = MappingProxyType(
    {
        "bpco": None,
        "bpo": None,
        "flash_reinforce": None,
        "grpo": None,
        "klpo": None,
        "rae": "a key for each trace, and the traces in order of completion",
        "reinforce": None,
        "sao": None,
    }
)
"""What each method needs and a batch of the trainer does not have; None where nothing is missing."""


def require_runnable(method: str) -> None:
    """Refuse a method that there is not, or that needs what the trainer's batches do not have."""
    runnable = ", ".join(name for name, missing in UNMET.items() if missing is None)
    if method not in UNMET:
        raise SettingsError(f"method {method!r} is unknown; expected one of {runnable}; mend train.method")
    if UNMET[method] is not None:
        raise SettingsError(
            f"method {method!r} needs {UNMET[method]}, which this trainer does not have; expected one of {runnable}; "
            "choose one of them as train.method"
        )
