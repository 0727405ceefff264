"""Which format a line is of, by its content alone, and the calls that it holds."""

from __future__ import annotations

import msgspec

from ingest.call import Call
from ingest.formats import vllm_chat
from ingest.formats.format import Format, Marks
from ingest.formats.strict import repair
from schemas.errors import LineError

FORMATS: tuple[Format, ...] = (vllm_chat.FORMAT,)
"""All formats; the first that claims a line reads it, so a special one stands before a general one."""

_MARKS = msgspec.json.Decoder(Marks)


class CallReader:
    """Reads the lines of one file; each line is first tried as what the line before it was."""

    def __init__(self) -> None:
        self._last = FORMATS[0]

    def __call__(self, line: bytes) -> tuple[Call, ...]:
        """The calls of one line; every line that holds none raises `LineError` with its reason.

        Strict decoding comes first. A line that it refuses is looked at again slowly: what can be kept is kept and
        noted, and what cannot be is named.
        """
        try:
            return self._last.read(line) or self._read(line)
        except (msgspec.DecodeError, RecursionError):
            repaired, notes = repair(line)
        try:
            calls = self._read(repaired)
        except msgspec.DecodeError as error:
            raise LineError("bad_field", f"{error}; expected the server's own types: mend the writer") from error
        except RecursionError as error:
            raise LineError(
                "bad_json", "nested too deeply to be read; expected a few levels: mend the writer"
            ) from error
        return tuple(_noted(call, notes) for call in calls)

    def _read(self, line: bytes) -> tuple[Call, ...]:
        known = detect(line)
        calls = known.read(line) if known is not None else None
        if known is None or calls is None:
            raise LineError(
                "schema_unknown",
                f"JSON of no known format; expected one of {', '.join(f.name for f in FORMATS)}: see docs/formats.md",
            )
        self._last = known
        return calls


def detect(line: bytes) -> Format | None:
    """The format of a line of strict JSON; None when no format claims it."""
    try:
        marks = _MARKS.decode(line)
    except msgspec.ValidationError:  # JSON, but no object
        return None
    return next((known for known in FORMATS if known.claims(marks)), None)


def _noted(call: Call, notes: tuple[str, ...]) -> Call:
    """The call with the notes of its repair; a log-probability that was NaN or infinite is not merely missing."""
    if "nonfinite_number" in notes and "no_behavior_logprobs" in call.notes:
        call.notes = tuple("nonfinite_logprob" if note == "no_behavior_logprobs" else note for note in call.notes)
    call.notes = (*call.notes, *notes)
    return call
