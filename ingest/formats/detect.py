"""Which format a line is of, by its content alone, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from ingest.call import Call
from ingest.formats import (
    agent_lightning_event,
    agent_lightning_span,
    areal_response,
    langfuse_trace,
    litellm_ducklake,
    litellm_spend,
    litellm_standard,
    mlflow_trace,
    openinference,
    otlp,
    phoenix_span,
    rllm_trace,
    slime_sample,
    tracemill,
    verifiers_trace,
)
from ingest.formats.bodies import READERS
from ingest.formats.body import first_element
from ingest.formats.format import Format, Keys, Records, keys_of
from ingest.formats.scores import score_formats
from ingest.formats.strict import repair
from ingest.outcome import Outcome
from ingest.webhooks import WebhookEvent
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError, UsageError

_ELEMENTS = msgspec.json.Decoder(list[Raw])


def log_formats(words: WordSettings) -> tuple[Format, ...]:
    """The formats of logs, with what the labels of scores within them are worth.

    The first that claims a line reads it, so a special one stands before a general one.
    """
    return (
        litellm_standard.FORMAT,
        litellm_spend.FORMAT,
        litellm_ducklake.FORMAT,
        agent_lightning_event.FORMAT,
        agent_lightning_span.FORMAT,
        mlflow_trace.format_of(words),
        langfuse_trace.format_of(words),
        otlp.format_of(words),
        phoenix_span.format_of(words),
        openinference.FORMAT,
        verifiers_trace.FORMAT,
        rllm_trace.FORMAT,
        slime_sample.FORMAT,
        areal_response.FORMAT,
        tracemill.FORMAT,
        *(reader.format for reader in READERS),
    )


FORMATS = log_formats(USUAL)
"""The formats of logs where no settings are at hand."""


def all_formats(words: WordSettings, events: Mapping[str, WebhookEvent]) -> tuple[Format, ...]:
    """The formats of logs, then those of scores."""
    return (*log_formats(words), *score_formats(words, events))


def format_named(name: str, formats: Sequence[Format] = FORMATS) -> Format:
    """The format of that name; UsageError names them all when there is none."""
    for known in formats:
        if known.name == name:
            return known
    raise UsageError(f"format {name!r} is not known; expected one of {', '.join(known.name for known in formats)}")


class RecordReader:
    """Reads the lines of one file; each line is first tried as what the line before it was.

    With `only` every line is read as that format, and a line of another is refused.
    """

    def __init__(self, only: Format | None = None, formats: Sequence[Format] = FORMATS) -> None:
        self._only = only
        self._formats = formats
        self._last = only or formats[0]

    def __call__(self, line: bytes) -> Records:
        """What one line holds; every line that holds nothing readable raises `LineError` with its reason.

        Strict decoding comes first. A line that it refuses is looked at again slowly: what can be kept is kept and
        noted, and what cannot be is named.
        """
        try:
            if not line.isascii():
                line.decode()  # keys that no format uses are skipped undecoded
            return self._of_format(self._quickly(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            repaired, notes = repair(line)
        try:
            records = self._read(repaired if notes else line)  # what needs no repair is kept word for word
        except msgspec.DecodeError as error:
            raise LineError("bad_field", f"{error}; expected the server's own types: mend the writer") from error
        except RecursionError as error:
            raise LineError(
                "bad_json", "nested too deeply to be read; expected a few levels: mend the writer"
            ) from error
        return self._of_format(tuple(_noted(record, notes) for record in records))

    def _of_format(self, records: Records) -> Records:
        """The records, refused when they turned out to be of another format than the one that is asked for."""
        only = self._only
        if only is not None and any(isinstance(one, Call) and one.log_format != only.name for one in records):
            raise _unknown({}, (only,))
        return records

    def _quickly(self, line: bytes) -> Records:
        records = self._last.read(line) if line[:1] != b"[" else None
        return self._read(line) if records is None else records

    def _read(self, line: bytes) -> Records:
        if line.lstrip()[:1] == b"[":
            return self._read_list(line)
        known = self._only or detect(keys_of(line), self._formats)
        records = known.read(line) if known is not None else None
        if known is None or records is None:
            raise _unknown(keys_of(line), (self._only,) if self._only is not None else self._formats)
        if known.tells_apart:
            self._last = known
        return records

    def _read_list(self, line: bytes) -> Records:
        """A list is the chunks of one stream, or several records that stand in one line."""
        first = first_element(line)
        for known in (self._only,) if self._only is not None else self._formats:
            if first is not None and known.claims({"chunks": Raw(line)}):
                records = known.read(line)
                if records is not None:
                    return records
        return tuple(record for element in _ELEMENTS.decode(line) for record in self._read(bytes(element)))


def detect(keys: Keys, formats: Sequence[Format] = FORMATS) -> Format | None:
    """The format of a line with these top-level keys; None when no format claims it."""
    return next((known for known in formats if known.claims(keys)), None)


def _unknown(keys: Keys, formats: Sequence[Format]) -> LineError:
    """Why no format reads a line, as precisely as its keys say."""
    if len(formats) > 1 and "request" in keys and ("response" in keys or "chunks" in keys):
        return LineError(
            "no_choices", "the response is null, empty or an error; expected a model's reply: log errors elsewhere"
        )
    names = ", ".join(known.name for known in formats)
    expected = names if len(formats) == 1 else f"one of {names}"
    return LineError("schema_unknown", f"JSON of no known format; expected {expected}: see docs/formats.md")


def _noted(record: Call | Outcome, notes: tuple[str, ...]) -> Call | Outcome:
    """The record with the notes of its repair; a log-probability that was NaN or infinite is not merely missing.

    A score is a number or it is not: one whose line holds NaN or the like is refused.
    """
    if isinstance(record, Outcome):
        if "nonfinite_number" in notes:
            raise LineError(
                "bad_value", "a number is NaN or infinite; expected a finite score, or null to withdraw one"
            )
        return record
    call = record
    if "nonfinite_number" in notes and "no_behavior_logprobs" in call.notes:
        call.notes = tuple("nonfinite_logprob" if note == "no_behavior_logprobs" else note for note in call.notes)
    call.notes = (*call.notes, *notes)
    return call
