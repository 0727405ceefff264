"""Lines of logs as calls with their meaning, and as the scores that some logs hold beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.call import Call, identity, named, refuse_wide
from ingest.call_rows import call_rows
from ingest.faults import judge
from ingest.formats.detect import RecordReader, all_formats, format_named
from ingest.formats.outcome_csv import CsvReader
from ingest.meaning import Interpreter, Meaning
from ingest.outcome import Outcome
from ingest.outcome_rows import outcome_rows
from ingest.reading import Reading
from ingest.redact import Redactor

if TYPE_CHECKING:
    from ingest.batch import Placed
    from ingest.lines import Line


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call, what its numbers mean, what is wrong with it and its identity."""

    item_id: str
    call: Call
    meaning: Meaning
    codes: tuple[str, ...]

    table = "calls"

    @property
    def num_bytes(self) -> int:
        """Bytes of its packed tokens and numbers, and of its texts in characters."""
        call = self.call
        parts = (call.prompt_token_ids, call.token_ids, call.token_logprobs, call.messages_json, call.reply_text)
        return sum(len(part) for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """A score event and its identity, which is that of what was sent, whatever is redacted of it."""

    item_id: str
    outcome: Outcome

    table = "outcomes"
    num_bytes = 0


class LogSource:
    """Reads lines of serving logs, tracing exports and score files, whatever their format.

    Lines are read in one thread and rows made in another, so each has a redactor of its own.
    """

    def __init__(self, reading: Reading, salt: bytes = b"") -> None:
        settings = reading.settings
        self.content_kind = reading.content_kind
        self._interpret = Interpreter(reading.deployments)
        self._configured = reading.deployments
        self._salt = salt
        self._formats = all_formats(settings.words, settings.webhooks)
        # A file of scores is told by its content: the setting is about logs.
        is_free = settings.format is None or reading.content_kind == "outcomes"
        self._only = None if is_free else format_named(settings.format or "", self._formats)
        self._csv = CsvReader(settings.csv, settings.words)
        self._is_first = True
        self._decode = RecordReader(self._only, self._formats)
        self._redactor = Redactor(settings.redact, salt)

    def begin(self, head: bytes) -> None:
        """Forget the file before, and learn the form of this one from the part that was read before, if any."""
        self._decode = RecordReader(self._only, self._formats)
        self._csv.begin(head)
        self._is_first = not head.strip()

    def read(self, line: Line) -> tuple[ReadCall | ReadOutcome, ...] | None:
        """What one line holds: calls, one a choice, and scores; None for the header of a CSV file."""
        is_first, self._is_first = self._is_first, False
        if self._csv.has_header or (is_first and self._csv.is_header(line.text)):
            scores = self._csv.read(line)
            return None if scores is None else tuple(ReadOutcome(score.item_id, score) for score in scores)
        return tuple(self._item(record, line) for record in self._decode(line.text))

    def _item(self, record: Call | Outcome, line: Line) -> ReadCall | ReadOutcome:
        if isinstance(record, Outcome):
            return ReadOutcome(record.item_id, record)
        call = named(record, line)
        refuse_wide(call)
        meaning = self._interpret(call)
        return ReadCall(identity(call), call, meaning, judge(call, meaning))

    def rows(self, landed: Sequence[Placed], now: datetime) -> dict[str, pa.Table]:
        """The rows of each table, redacted."""
        calls = [placed for placed in landed if placed.item.table == "calls"]
        scores = [placed for placed in landed if placed.item.table == "outcomes"]
        return {
            "calls": call_rows(calls, self._redactor, self._salt, self._configured, now),
            "outcomes": outcome_rows(scores, self._redactor, now),
        }

    def take_redacted(self) -> dict[str, int]:
        """How much was taken out of the rows since it was last asked, by kind."""
        return self._redactor.take_counts()
