"""A line that holds no call or outcome, as a row of `rejects`."""

from __future__ import annotations

from typing import Any

from ingest.lines import Line
from ingest.redact import shown_bytes
from schemas.errors import LineError

CUT = ("bad_json", "bad_unicode", "line_too_long", "truncated_tail")
"""Reasons that a last line without a newline is given when it was cut in the middle. Of any other it is whole."""


def is_cut(line: Line, error: LineError) -> bool:
    """Whether the line is the last one and was cut before its end; when the file grows it is read again."""
    return not line.is_terminated and error.reason in CUT


def reject_row(uri: str, line: Line, error: LineError) -> dict[str, Any]:
    """The row of `rejects`, but for the version of the file and the time."""
    reason, message = error.reason, error.message
    if is_cut(line, error):
        reason, message = "truncated_tail", f"no newline at the end, and {message}: the line was cut"
    return {
        "uri": uri,
        "byte_offset": line.byte_offset,
        "num_bytes": line.num_bytes,
        "line_sha256": line.sha256,
        "reason": reason,
        "message": message,
        "first_bytes": shown_bytes(line.text),
    }
