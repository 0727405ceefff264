"""A line that holds no call or outcome, as a row of `rejects`."""

from __future__ import annotations

from typing import Any

from ingest.lines import Line
from ingest.redact import Redactor
from schemas.errors import LineError

CUT = ("bad_json", "bad_unicode", "line_too_long", "truncated_tail", "damaged_bytes")
"""Reasons that a last line without an end is given when it was cut in the middle. Of any other it is whole."""


def is_cut(line: Line, error: LineError) -> bool:
    """Whether the line is the last one and was cut before its end; when the file grows it is read again."""
    return not line.is_terminated and error.reason in CUT


def final_reason(line: Line, error: LineError) -> str:
    """The reason that the reject is given: that a line was cut says more than what the cut made of it."""
    return "truncated_tail" if is_cut(line, error) and error.reason != "damaged_bytes" else error.reason


def reject_row(uri: str, line: Line, error: LineError, redactor: Redactor) -> dict[str, Any]:
    """The row of `rejects`, redacted, but for the version of the file and the time."""
    reason, message = final_reason(line, error), error.message
    if reason == "truncated_tail":
        message = f"no newline at the end, and {message}: the line was cut"
    return {
        "uri": uri,
        "byte_offset": line.byte_offset,
        "num_bytes": line.num_bytes,
        "line_sha256": line.sha256,
        "reason": reason,
        "message": redactor.message(message),
        "first_bytes": redactor.raw_head(line.text),
    }
