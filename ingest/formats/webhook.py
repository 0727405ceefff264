"""Signed webhook deliveries as the endpoint kept them: `{"headers": ..., "body": ...}`, one a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from ingest.formats.format import Format, Keys
from ingest.formats.score_line import fields_of, part
from ingest.outcome import Outcome, outcome_from
from ingest.webhooks import WebhookEvent
from ingest.words import USUAL, WordSettings

NAME = "webhook"


def claims(keys: Keys) -> bool:
    """Whether the keys are those of a delivery."""
    return {"headers", "body"} <= keys.keys() and b"webhook-id" in bytes(keys["headers"])


def delivery_outcome(
    delivery: Mapping[str, Any], events: Mapping[str, WebhookEvent], words: WordSettings = USUAL
) -> Outcome | None:
    """The outcome that a delivery states; None for an event of a type that the settings do not name.

    The delivery was verified when it came in. Of an event that was delivered twice both say the same: what differs
    between attempts does not enter.
    """
    body = delivery.get("body")
    kind = body.get("type") if isinstance(body, Mapping) else None
    event = events.get(kind) if isinstance(kind, str) else None
    if event is None:
        return None
    fields: dict[str, Any] = {"name": event.name, "source": event.source, "source_kind": event.source_kind}
    document = {"headers": part(delivery, "headers"), "body": body}
    for name, path in event.paths.items():
        found = _at(document, path)
        if found is not UNSET:  # a value that is not there is no value that was withdrawn
            fields[name] = found
    return outcome_from(fields, words)


def _at(document: object, path: str) -> Any:
    """What stands at a path; UNSET where nothing does. A number in the path is a place in a list."""
    for step in path.split("."):
        if isinstance(document, Mapping):
            document = document.get(step, UNSET)
        elif isinstance(document, list) and step.isascii() and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return UNSET
    return document


def format_of(words: WordSettings, events: Mapping[str, WebhookEvent]) -> Format:
    """The format, with the events that are outcomes and what labels are worth."""

    def read(line: bytes) -> tuple[Outcome, ...]:
        outcome = delivery_outcome(fields_of(line), events, words)
        return () if outcome is None else (outcome,)

    return Format(NAME, claims, read, tells_apart=False)
