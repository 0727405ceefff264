"""A span of any tracing system, and its attributes flat and nested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ingest.formats.dialogue import parsed
from ingest.formats.exported import text_in
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, hex_id
from schemas.errors import LineError

_DEEPEST = 64
"""Levels of nested attributes that are followed; what lies deeper is one value. Convention, untested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened within a span: an event on it, or a log record that names it."""

    name: str
    attributes: Mapping[str, Any]
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span with plain values; `attributes` are flat, by dotted names."""

    trace_id: object
    span_id: object
    attributes: Mapping[str, Any]
    started_at: datetime | None = None
    ended_at: datetime | None = None
    events: tuple[Event, ...] = ()
    has_failed: bool = False
    notes: tuple[str, ...] = field(default=())

    def shared(self, log_format: str) -> dict[str, Any]:
        """The fields of `Exported` that every dialect takes from the span itself; refuses ids that are none."""
        metadata = parsed(self.attributes.get("metadata"))
        places = (self.attributes, metadata if isinstance(metadata, Mapping) else {})
        ask_id = next((one for one in (text_in(place, "ask_id", "metadata.ask_id") for place in places) if one), None)
        return {
            "log_format": log_format,
            "trace_id": plain_id(self.trace_id, TRACE_ID_BYTES, "the trace id") or "",
            "span_id": plain_id(self.span_id, SPAN_ID_BYTES, "the span id"),
            "ask_id": ask_id,
            "session_id": text_in(self.attributes, "session.id", "gen_ai.conversation.id", "mlflow.trace.session"),
            "user": text_in(self.attributes, "user.id", "enduser.id", "mlflow.trace.user"),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "notes": self.notes,
        }


def plain_id(value: object, num_bytes: int, field: str) -> str | None:
    """A trace or span id as lower-case hex, None where there is none; raises LineError for one that is no id."""
    try:
        found = hex_id(value.removeprefix("0x") if isinstance(value, str) else value, num_bytes, field)
    except LineError as error:
        raise LineError("bad_trace_id", error.message) from error
    if found is None and value not in (None, ""):
        raise LineError("bad_trace_id", f"{field} is all zero; expected {num_bytes} bytes as hex: mend the exporter")
    return found


def flat(value: object, place: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The leaves of nested attributes by their dotted place; flat attributes are their own leaves."""
    if isinstance(value, Mapping) and value and depth < _DEEPEST:
        for name, inner in value.items():
            yield from flat(inner, f"{place}.{name}" if place else str(name), depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value):
            yield from flat(inner, f"{place}.{number}", depth + 1)
    else:
        yield place, value


def nested(attributes: Mapping[str, Any], prefix: str) -> Any:
    """The value under a prefix, put together again from dotted names; None where there is nothing.

    Numbers in names are positions in a list, in the order of the numbers: 10 comes after 9.
    """
    if attributes.get(prefix) is not None:
        return attributes[prefix]
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(f"{prefix}."):
            continue
        *path, leaf = name[len(prefix) + 1 :].split(".")
        node: Any = tree
        for step in path[:_DEEPEST]:
            node = node.setdefault(step, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.setdefault(leaf, value)
    return _lists(tree) if tree else None


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(name.isascii() and name.isdigit() for name in node):
        return [
            _lists(node[name])
            for name in sorted(node, key=lambda digits: (len(digits.lstrip("0")), digits.lstrip("0")))
        ]
    return {name: _lists(inner) for name, inner in node.items()}
