"""What one server answers, and everything that may be written around it.

A log line is a bare response, `{"request": ..., "response": ...}`, the same with `chunks` of a stream, or either of
them inside a gateway's envelope. A `Body` knows one server's response; a `BodyReader` reads it in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ingest.call import Call
from ingest.formats.events import first_chunks, payloads
from ingest.formats.format import Format, Keys, Records, is_null, keys_of
from ingest.formats.sizes import SmallInt
from ingest.times import parse_time
from schemas.errors import LineError


class Envelope(Struct, kw_only=True):
    """What a gateway writes around one request and its response."""

    ts: str | float | None = None
    ended_at: str | float | None = None
    trace_id: str | int | None = None
    span_id: str | int | None = None
    call_index: SmallInt | None = None
    ask_id: str | int | None = None
    session_id: str | int | None = None
    user: str | int | None = None
    workload: str | int | None = None
    deployment: str | int | None = None


Q = TypeVar("Q")
R = TypeVar("R")
C = TypeVar("C")


class Wrapping(Envelope, Generic[Q, R, C], kw_only=True):
    """An envelope with a request and what came back; `response` may hold the chunks of a stream as well."""

    request: Q | UnsetType | None = UNSET
    response: R | list[C] | UnsetType | None = UNSET
    chunks: list[C] | UnsetType | None = UNSET
    call_type: Raw | UnsetType = UNSET
    model_parameters: Raw | UnsetType = UNSET
    spend: Raw | UnsetType = UNSET
    startTime: Raw | UnsetType = UNSET  # noqa: N815 - the name that a gateway gives it

    @property
    def is_record(self) -> bool:
        """Whether it is the record of a gateway, which has a format of its own and a server's response in it."""
        is_payload = self.model_parameters is not UNSET and self.call_type is not UNSET
        return is_payload or (self.spend is not UNSET and self.startTime is not UNSET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """One decoded response and what stands around it, ready to become calls."""

    envelope: Envelope
    request: Any
    """Of the body's request type; None when the line has no request."""
    response: Any
    """Of the body's response type."""
    streamed: bool = False
    notes: tuple[str, ...] = ()

    def shared(self, created: float | None = None) -> dict[str, Any]:
        """The fields of `Call` that the envelope gives.

        `created` is the response's own time, if it has one; some proxies write 0 where they have none.
        """
        told = self.envelope
        _refuse_nul(told)
        started_at = _time(told.ts, "ts")
        return {
            "trace_id": text_or_none(told.trace_id) or "",
            "span_id": text_or_none(told.span_id),
            "call_index": told.call_index,
            "ask_id": text_or_none(told.ask_id),
            "session_id": text_or_none(told.session_id),
            "user": text_or_none(told.user),
            "workload": text_or_none(told.workload),
            "deployment": text_or_none(told.deployment),
            "created": None if created is None else int(created),
            "started_at": started_at or _time(created or None, "the response's time"),
            "ended_at": _time(told.ended_at, "ended_at"),
            "streamed": self.streamed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One server's response.

    `claims` and `claims_chunk` look at the keys of a response and of a chunk; `join` puts chunks together into the
    response that the server would have sent whole, with notes as reason codes. `calls` gives one call a choice, or
    None when the decoded response turns out to be another server's.
    """

    name: str
    request: type[Any]
    response: type[Any]
    claims: Callable[[Keys], bool]
    calls: Callable[[Wrapped], tuple[Call, ...] | None]
    chunk: type[Any] | None = None
    claims_chunk: Callable[[Keys], bool] | None = None
    join: Callable[[Sequence[Any]], tuple[Any, tuple[str, ...]]] | None = None


class BodyReader:
    """Reads a body in every wrapping, each with one typed decode."""

    def __init__(self, body: Body) -> None:
        self._body = body
        kind: Any = body.chunk if body.chunk is not None else body.response
        chunk: Any = kind | str  # the text of the event that brought it
        self._chunk: Any = msgspec.json.Decoder(kind)
        self._wrapping: Any = msgspec.json.Decoder(Wrapping[body.request, body.response, chunk])  # type: ignore[name-defined]  # types made at run time
        self._response: Any = msgspec.json.Decoder(body.response)
        self._chunks: Any = msgspec.json.Decoder(list[chunk])
        self._request: Any = msgspec.json.Decoder(body.request)

    @property
    def format(self) -> Format:
        """The format of log lines that hold this body."""
        return Format(self._body.name, self.claims, self.read)

    def claims(self, keys: Keys) -> bool:
        """Whether a line with these keys holds this body, bare or wrapped."""
        if "request" not in keys and "response" not in keys and "chunks" not in keys:
            return self._body.claims(keys)
        inner = keys["chunks"] if is_null(keys, "response") and "chunks" in keys else keys.get("response", Raw(b"null"))
        return self.claims_answer(inner)

    def claims_answer(self, answer: bytes | Raw) -> bool:
        """Whether a response, or a list of chunks, is this body's."""
        chunks = first_chunks(answer)
        if chunks is None:
            return self._body.claims(keys_of(answer))
        claims_chunk = self._body.claims_chunk
        return claims_chunk is not None and any(claims_chunk(keys_of(chunk)) for chunk in chunks)

    def read(self, line: bytes) -> Records | None:
        """The calls of one line; None when it is no line of this body, whatever else may be wrong with it."""
        is_list = line.lstrip()[:1] == b"["
        try:
            return self._streamed(Envelope(), None, self._chunks.decode(line)) if is_list else self._object(line)
        except LineError:
            if not self.claims({"chunks": Raw(line)} if is_list else keys_of(line)):
                return None
            raise

    def _object(self, line: bytes) -> Records | None:
        if b'"response"' not in line and b'"chunks"' not in line:  # no wrapping has neither
            return self._bare(line)
        wrapping = self._wrapping.decode(line)
        if wrapping.is_record:
            return None
        if wrapping.response is UNSET and wrapping.chunks is UNSET:
            return self._bare(line)
        request = wrapping.request if wrapping.request is not UNSET else None
        chunks = next((one for one in (wrapping.response, wrapping.chunks) if isinstance(one, list)), None)
        if chunks is not None:
            return self._streamed(wrapping, request, chunks)
        if wrapping.response is None or wrapping.response is UNSET:
            raise LineError(
                "no_choices", "neither a response nor chunks in the line; expected one: log errors elsewhere"
            )
        return self._body.calls(Wrapped(envelope=wrapping, request=request, response=wrapping.response))

    def answer(self, envelope: Envelope, request: Raw | None, answer: Raw) -> Records | None:
        """The calls of an answer that a gateway's record holds: a response, or a list of chunks."""
        asked = self._request.decode(request) if request is not None and bytes(request).strip() != b"null" else None
        if first_element(answer) is not None:
            return self._streamed(envelope, asked, self._chunks.decode(answer))
        return self._body.calls(Wrapped(envelope=envelope, request=asked, response=self._response.decode(answer)))

    def _bare(self, line: bytes) -> Records | None:
        return self._body.calls(Wrapped(envelope=Envelope(), request=None, response=self._response.decode(line)))

    def _streamed(self, envelope: Envelope, request: Any, chunks: Sequence[Any]) -> Records | None:
        if self._body.join is None or not chunks:
            return None
        response, notes = self._body.join([*chain.from_iterable(self._undressed(chunk) for chunk in chunks)])
        return self._body.calls(
            Wrapped(envelope=envelope, request=request, response=response, streamed=True, notes=notes)
        )

    def _undressed(self, chunk: Any) -> Sequence[Any]:
        """A chunk by itself; of the text of an event the chunks in it."""
        return [self._chunk.decode(document) for document in payloads(chunk)] if isinstance(chunk, str) else (chunk,)


_ELEMENTS = msgspec.json.Decoder(list[Raw])


def first_element(document: bytes | Raw) -> Raw | None:
    """The first element of a JSON list; None of an empty one, and of anything else."""
    try:
        return next(iter(_ELEMENTS.decode(document)), None)
    except msgspec.ValidationError:
        return None


def text_or_none(value: str | int | None) -> str | None:
    """An id as text, whether the log has it as a text or a number."""
    return None if value is None else str(value)


def refuse_nul(values: dict[str, Any]) -> None:
    """Refuse names with a NUL character: the catalog's SQL would end there."""
    for name, value in values.items():
        if isinstance(value, str) and "\x00" in value:
            raise LineError("bad_field", f"{name} holds a NUL character; expected a printable name: mend the writer")


def _refuse_nul(told: Envelope) -> None:
    names = ("trace_id", "span_id", "ask_id", "session_id", "user", "workload", "deployment")
    refuse_nul({name: getattr(told, name) for name in names})


def _time(value: str | float | None, field: str) -> datetime | None:
    return None if value is None else parse_time(value, field)
