"""What a log format is: a name, a test on the keys of a line, and a reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from ingest.call import Call
from ingest.outcome import Outcome

Keys = Mapping[str, Raw]
"""The top-level keys of a JSON object, their values undecoded."""

Records = tuple[Call | Outcome, ...]
"""What one line holds; empty for a known record that holds neither a call nor a score."""

_KEYS = msgspec.json.Decoder(dict[str, Raw])


@dataclass(frozen=True, slots=True)
class Format:
    """One log format."""

    name: str
    """What `calls.log_format` says."""
    claims: Callable[[Keys], bool]
    """Whether a line with these keys is of this format."""
    read: Callable[[bytes], Records | None]
    """What one line holds, None when the line is of another format. Raises LineError for a line that should hold a
    call or a score and does not, and msgspec's errors for one that it cannot decode."""
    tells_apart: bool = True
    """Whether `read` looks itself whether a line is of this format; else it may read only what `claims` has seen."""


def keys_of(document: bytes | Raw) -> Keys:
    """The top-level keys of strict JSON; none of anything but an object. Raises msgspec.DecodeError for no JSON."""
    try:
        return _KEYS.decode(document)
    except msgspec.ValidationError:  # JSON, but no object
        return {}


def spelled(keys: Keys, name: str) -> bytes:
    """The value of a key as the line spells it, without space around it; a missing one is null."""
    return bytes(keys.get(name, b"null")).strip()


def is_null(keys: Keys, name: str) -> bool:
    """Whether a key is missing or null."""
    return spelled(keys, name) == b"null"
