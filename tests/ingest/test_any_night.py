"""However the lines of a night are shuffled, doubled, spelled, packed and spread over readings, the tables say the same."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ingest.formats.detect import RecordReader, all_formats
from ingest.words import USUAL
from schemas.errors import LineError
from tests.ingest import score_examples
from tests.ingest.fuzz_lines import seeds
from tests.ingest.hand_made import line
from tests.ingest.night_made import (
    BROKEN,
    JSON_KINDS,
    LANDING,
    LINE_KINDS,
    NIGHT,
    REJECTED,
    fresh,
    holds,
    land,
    ledger_adds_up,
    put_together,
    said,
    written,
)

# Each example takes a second: a shorter one is found by hand sooner than by shrinking.
_WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
_FEW = settings(max_examples=8, deadline=None, phases=_WITHOUT_SHRINKING, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Writing:
    """What one reading finds: lines by file, a cut of the last one, whether a file is there again under another name."""

    lines: dict[int, tuple[bytes, ...]]
    cuts: int
    """Bytes of the next reading's first line that are there already, in the first file, if it is a plain one."""
    copies: bool
    assembles: bool


@dataclass(frozen=True)
class Delivery:
    """A night as it comes: the kind of each file, and what each reading finds of them."""

    kinds: tuple[str, ...]
    writings: tuple[Writing, ...]

    @property
    def lines(self) -> frozenset[bytes]:
        """The distinct lines."""
        return frozenset(one for writing in self.writings for lines in writing.lines.values() for one in lines)

    def parts(self, file: int, until: int) -> list[tuple[bytes, ...]]:
        """What each writing has added to a file, up to one of them."""
        return [writing.lines[file] for writing in self.writings[: until + 1]]


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    """Any lines of the night, any number of times, in any order, over three files and up to three readings.

    The first file is one of lines, the last one may be one of scores; what a file cannot hold goes into the first.
    """
    kinds = (
        draw(st.sampled_from(LINE_KINDS)),
        draw(st.sampled_from((*LINE_KINDS, *JSON_KINDS))),
        draw(st.sampled_from(("csv", *JSON_KINDS))),
    )
    num_readings = draw(st.integers(1, 3))
    where = st.tuples(st.sampled_from(NIGHT), st.integers(0, 2), st.integers(0, num_readings - 1))
    placed: list[dict[int, list[bytes]]] = [{file: [] for file in range(3)} for _ in range(num_readings)]
    for text, file, reading in draw(st.lists(where, min_size=12, max_size=60)):
        placed[reading][file if holds(kinds[file], text) else 0].append(text)
    return Delivery(
        kinds,
        tuple(
            Writing(
                {file: tuple(texts) for file, texts in files.items()},
                draw(st.integers(0, 300)),
                draw(st.booleans()),
                draw(st.booleans()),
            )
            for files in placed
        ),
    )


def _cut(delivery: Delivery, number: int) -> bytes:
    """The beginning of the next reading's first line, as a writer at work leaves it."""
    if delivery.kinds[0] != "plain" or number + 1 == len(delivery.writings):
        return b""
    following = delivery.writings[number + 1].lines[0]
    is_json = following and following[0] not in BROKEN
    return following[0][: min(delivery.writings[number].cuts, len(following[0]) - 1)] if is_json else b""


def _write(delivery: Delivery, folder: Path, number: int) -> int:
    """Write what a reading finds; how many lines of it that reading has to count."""
    writing = delivery.writings[number]
    counted = sum(map(len, writing.lines.values()))
    for file, kind in enumerate(delivery.kinds):
        parts = delivery.parts(file, number)
        content = written(kind, parts)
        if file == 0 and (cut := _cut(delivery, number)):
            content += cut
            counted += 1
        (folder / f"{file}.log").write_bytes(content)
        if file == 1 and writing.copies:
            (folder / f"copy-{number}.log").write_bytes(content)
            counted += sum(map(len, parts))
    return counted


def _landed(empty_lake: Path, delivery: Delivery) -> dict[str, Any]:
    """What the lake says after all readings, each of which counts every line that it found, once."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        with fresh(empty_lake, Path(folder) / "lake") as lake:
            num_landed = 0
            for number, writing in enumerate(delivery.writings):
                expected = _write(delivery, logs, number)
                report = land(lake, logs)
                assert report.num_lines == expected
                num_landed += report.num_landed
                if writing.assembles:
                    put_together(lake)
            put_together(lake)
            assert num_landed == len(delivery.lines & LANDING)
            assert land(lake, logs).num_lines == 0
            ledger_adds_up(lake)
            return said(lake)


def _expected(empty_lake: Path, lines: frozenset[bytes]) -> dict[str, Any]:
    """What one plain file in one reading gives."""
    writing = Writing({0: tuple(text for text in NIGHT if text in lines)}, 0, copies=False, assembles=False)
    found = _landed(empty_lake, Delivery(("plain",), (writing,)))
    assert len(found["rejects"]) == len(lines & REJECTED)
    return found


@pytest.mark.slow
@_FEW
@given(delivery=deliveries())
def test_any_delivery_of_any_night_gives_the_same_tables(empty_lake: Path, delivery: Delivery) -> None:
    """Order, doubles, spelling, packing, number of files and of readings: nothing of it is in the tables."""
    found, expected = _landed(empty_lake, delivery), _expected(empty_lake, delivery.lines)
    for part, rows in expected.items():
        assert len(found[part]) == len(rows)
        for row, same in zip(found[part], rows, strict=True):
            assert row == same


def _seeds() -> list[bytes]:
    """One line of each kind that there is."""
    named = score_examples
    scores = [named.LANGFUSE, named.OTEL, named.CARRIER, named.PHOENIX, named.WEBHOOK, named.PLAIN, *named.MLFLOW]
    return list(dict.fromkeys([*NIGHT, *seeds(), *map(line, scores)]))


def _read(reader: RecordReader, text: bytes) -> str:
    try:
        return repr(reader(text))
    except LineError as error:
        return f"{error.reason}: {error.message}"


def test_a_line_says_the_same_whatever_stands_before_it():
    """Each line after each other one."""
    formats = all_formats(USUAL, {})
    lines = _seeds()
    alone = [_read(RecordReader(None, formats), text) for text in lines]
    changed = []
    for before in lines:
        for text, expected in zip(lines, alone, strict=True):
            reader = RecordReader(None, formats)
            _read(reader, before)
            if _read(reader, text) != expected:
                changed.append((before[:60], text[:60]))
    assert changed == []
