"""Settings of signed webhooks: where deliveries are kept, and which of their events are outcomes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from ingest.outcome import JOIN_KEYS
from schemas.outcome import SourceKind
from schemas.settings import Settings

PATH = re.compile(r"(headers|body)(\.[^.]+)+")


class ReceiverSettings(Settings):
    """The endpoint that takes signed webhooks (`tracemill receive`) and keeps them for `tracemill outcomes`."""

    spool: Path = Path("spool")
    """Folder that deliveries are kept in, a file a day; name it in logs.outcomes to have them read.
    Convention, untested."""

    secret_env: str = Field(default="TRACEMILL_WEBHOOK_SECRET", min_length=1)
    """Environment variable with the signing secret (`whsec_...`); several, parted by spaces, while one replaces
    another. Convention, untested."""

    host: str = "127.0.0.1"
    """Address that the endpoint listens on; put a proxy that speaks TLS before it. Convention, untested."""

    port: int = Field(default=8787, ge=1, le=65535)
    """Port that the endpoint listens on. Convention, untested."""

    max_body_bytes: int = Field(default=2**20, ge=1)
    """Longest body that is taken, in bytes; below logs.max_line_bytes, or the delivery could not be read later.
    Convention, untested."""


class WebhookEvent(Settings):
    """How deliveries of one type are read: each path, such as body.ticket.external_id, names a field of a delivery."""

    name: str = Field(min_length=1)
    """Name of the outcome."""

    source: str = Field(min_length=1)
    """Who scores."""

    source_kind: SourceKind = "webhook"
    """Who scores: human, program, judge, user or webhook. Convention, untested."""

    value: str | None = None
    """Path of the number. Convention, untested: not read unless stated."""

    label: str | None = None
    """Path of the label, worth what logs.words.labels says. Convention, untested: not read unless stated."""

    trace_id: str | None = None
    """Path of the trace. Convention, untested: not read unless stated."""

    call_id: str | None = None
    """Path of the call. Convention, untested: not read unless stated."""

    response_id: str | None = None
    """Path of the response. Convention, untested: not read unless stated."""

    session_id: str | None = None
    """Path of the session. Convention, untested: not read unless stated."""

    business_key: str | None = None
    """Path of what was asked, the `ask_id` of the log. Convention, untested: not read unless stated."""

    event_id: str = "headers.webhook-id"
    """Path of the event's name; a second delivery has the same. Standard Webhooks, spec/standard-webhooks.md, section
    "Webhook Headers"."""

    event_time: str = "body.timestamp"
    """Path of the time of the event, which is in the body: the header's is that of the attempt to deliver.
    Standard Webhooks, spec/standard-webhooks.md, section "Payload Structure"."""

    @model_validator(mode="after")
    def _refuse_bad_paths(self) -> Self:
        for name, path in self.paths.items():
            if not PATH.fullmatch(path):
                raise ValueError(f"{name} = {path!r}: expected a path such as body.ticket.external_id")
        if not self.event_time.startswith("body."):
            raise ValueError(
                f"event_time = {self.event_time!r}: expected a path in the body; the header's time is that of the "
                "attempt, and a second attempt would be a later event"
            )
        if self.value is None and self.label is None:
            raise ValueError("neither value nor label: expected the path of one")
        if not self.paths.keys() & set(JOIN_KEYS):
            raise ValueError(f"none of {', '.join(JOIN_KEYS)}: expected the path of one")
        return self

    @property
    def paths(self) -> dict[str, str]:
        """The path of each field of an outcome that is read."""
        stated = {
            "value": self.value,
            "label": self.label,
            "trace_id": self.trace_id,
            "call_id": self.call_id,
            "response_id": self.response_id,
            "session_id": self.session_id,
            "business_key": self.business_key,
            "event_id": self.event_id,
            "event_time": self.event_time,
        }
        return {name: path for name, path in stated.items() if path is not None}
