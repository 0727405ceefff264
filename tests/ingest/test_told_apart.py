"""A line is read as what it is, whatever stood before it in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.call import Call
from ingest.formats.detect import RecordReader, all_formats
from ingest.words import WordSettings
from schemas.errors import LineError
from tests.ingest import score_examples
from tests.ingest.hand_made import envelope, first_call

HERE = Path(__file__).parent
FORMATS = all_formats(WordSettings(), {})


def examples() -> Iterator[tuple[str, bytes]]:
    """A line of every format: the examples of the reference, bare and wrapped, recorded ones, and scores."""
    yield "call", first_call()
    for path in sorted((HERE / "payloads").glob("*.json")):
        document = json.loads(path.read_text("utf-8"))
        yield path.name, json.dumps(document).encode()
        if isinstance(document, dict) and not {"request", "response"} & document.keys():
            yield f"wrapped {path.name}", json.dumps(envelope(document)).encode()
    for path in sorted((HERE / "recorded").glob("*.jsonl")):
        yield path.name, path.read_bytes().splitlines()[-1]
    for name in ("LANGFUSE", "OTEL", "CARRIER", "PHOENIX", "WEBHOOK", "PLAIN"):
        yield name, json.dumps(getattr(score_examples, name)).encode()


LINES = dict(examples())


def held(reader: RecordReader, line: bytes) -> list[Any]:
    """What a reader makes of a line, in plain values; the reason of a reject."""
    try:
        records = reader(line)
    except LineError as error:
        return [error.reason]
    return [msgspec.to_builtins(one) if isinstance(one, Call) else one.item_id for one in records]


ALONE = {name: held(RecordReader(None, FORMATS), line) for name, line in LINES.items()}


@pytest.mark.parametrize("before", LINES)
def test_what_a_line_holds_does_not_depend_on_the_line_before(before):
    """Any two lines of one file: a record of a gateway, a span or a call behind a score, word for word."""
    for name, line in LINES.items():
        reader = RecordReader(None, FORMATS)
        held(reader, LINES[before])
        assert held(reader, line) == ALONE[name], name
