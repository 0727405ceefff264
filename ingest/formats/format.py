"""What a log format is: a name, a test on the keys of a line, and a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import UNSET, Raw, Struct, UnsetType

from ingest.call import Call


class Marks(Struct):
    """The top-level keys by which formats are told apart, undecoded; UNSET where the line has no such key."""

    request: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET
    chunks: Raw | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Format:
    """One log format."""

    name: str
    """What `calls.log_format` says."""
    claims: Callable[[Marks], bool]
    """Whether a line with these keys is of this format."""
    read: Callable[[bytes], tuple[Call, ...] | None]
    """The calls of one line, None when the line is of another format. Raises LineError for a line that holds no call,
    and msgspec's errors for one that it cannot decode."""
