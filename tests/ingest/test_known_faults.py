"""Every known fault of logs that a file can carry, through a real lake; and the page that lists them."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.report import FileReport
from ingest.settings import LogSettings
from tests.ingest.fault_cases import FIRST, SETTINGS, Case, packed
from tests.ingest.hand_made import NOW
from tests.ingest.known_faults import CASES, FAULTS, NOT_MADE, PAGE, page
from validate.logprobs import count_tokens, find_bad_logprobs
from validate.traces import traces_of
from warehouse.lake import Lake

CONSTANT_RUN = 8
"""The gate's default."""

CASES_A_FILE = 16


@dataclass(frozen=True)
class Block:
    """Where the lines of a case stand."""

    file: str
    offset: int


def blocks() -> tuple[dict[str, Block], dict[str, bytes]]:
    """The place of each case, and the files: many cases in one, but those that are about the file itself."""
    places: dict[str, Block] = {}
    files: dict[str, bytes] = {}
    plain = [one for one in CASES if one.packing == "plain"]
    for number, one in enumerate(plain):
        name = f"log-{number // CASES_A_FILE}"
        text = files.get(name, b"")
        places[one.name] = Block(name, len(text))
        files[name] = text + one.block()
    for one in CASES:
        if one.packing != "plain":
            places[one.name] = Block(one.name, 0)
            files[one.name] = packed(one.block(), one.packing)
    return places, files


@dataclass(frozen=True)
class Night:
    """All cases landed and put together."""

    places: dict[str, Block]
    files: dict[str, FileReport]
    rows: dict[str, list[dict[str, Any]]]
    """Rows of calls, outcomes and rejects by their file."""
    traces: dict[str, list[dict[str, Any]]]
    gate: dict[str, set[str]]
    """What the gate finds wrong with the numbers of a trace."""
    notes: dict[str, int]
    scores: dict[str, float | None]
    """The score of a trace that counts today."""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory, empty_lake: Path) -> Night:
    """One lake for all cases: none of them may touch another's lines."""
    folder = tmp_path_factory.mktemp("faults")
    shutil.copytree(empty_lake, folder / "lake")
    places, files = blocks()
    for name, text in files.items():
        (folder / name).write_bytes(text)
    settings = LogSettings.model_validate({"redact": {"detectors": ["email"], "redacted_ids": "drop"}})
    with Lake.open(folder / "lake") as lake:
        paths = [str(folder / name) for name in files]
        report = land_calls(lake, paths, deployments=SETTINGS, settings=settings, now=NOW)
        told = assemble(lake, deployments=SETTINGS, settings=settings, now=NOW)
        rows: dict[str, list[dict[str, Any]]] = {}
        for name in ("calls", "outcomes", "rejects"):
            for row in lake.read(name).to_pylist():
                rows.setdefault(Path(row["uri"]).name, []).append({**row, "table": name})
        traces: dict[str, list[dict[str, Any]]] = {}
        table = lake.read("current_traces")
        for row in sorted(table.to_pylist(), key=lambda row: row["sequence_index"]):
            traces.setdefault(row["trace_id"], []).append(row)
        scores = {row["trace_id"]: row["value"] for row in lake.read("current_outcomes").to_pylist()}
        reports = {Path(file.uri).name: file for file in report.files}
        return Night(places, reports, rows, traces, gate_of(table), dict(told.notes), scores)


def gate_of(table: Any) -> dict[str, set[str]]:
    """What the gate finds in the numbers of each trace."""
    traces = traces_of(table)
    found = find_bad_logprobs(traces, count_tokens(traces.sequences), constant_run=CONSTANT_RUN)
    ids = traces.trace_ids.to_pylist()
    return {one: {code for code, flags in found.items() if flags[place]} for place, one in enumerate(ids)}


def rows_of(one: Case, night: Night) -> list[dict[str, Any]]:
    """The rows that came of the lines of a case, in the order of the file, without its good neighbours."""
    block = night.places[one.name]
    begin = block.offset + len(one.neighbour("before")) + 1
    end = begin + sum(len(text) + 1 for text in one.lines)
    rows = [row for row in night.rows[block.file] if begin <= row["byte_offset"] < end]
    return sorted(rows, key=lambda row: (row["byte_offset"], row.get("choice_index", 0)))


def calls_of(one: Case, night: Night) -> list[dict[str, Any]]:
    """The calls among them."""
    return [row for row in rows_of(one, night) if row["table"] == "calls"]


def endings(one: Case, night: Night) -> list[str]:
    """How each line of a case ended, by what stands in the tables at its place; the rest were duplicates."""
    ended = {row["byte_offset"]: row.get("reason", "landed") for row in rows_of(one, night)}
    offset, ends = night.places[one.name].offset + len(one.neighbour("before")) + 1, []
    for text in one.lines:
        ends.append(ended.get(offset, "duplicate"))
        offset += len(text) + 1
    return ends


def masks_of(sequences: list[dict[str, Any]]) -> list[str]:
    """The action mask of each sequence."""
    return ["".join("T" if on else "F" for on in row["action_mask"]) for row in sequences]


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one.number}-{one.name}")
def test_each_line_of_a_known_fault_ends_as_it_should(night, one):
    """In one state, with the exact reason and codes."""
    assert endings(one, night) == list(one.ends)
    assert [frozenset(row["notes"]) for row in calls_of(one, night)] == list(one.codes)
    assert frozenset(night.files[night.places[one.name].file].notes) == one.file_notes


def test_the_states_of_all_lines_add_up(night):
    """In each file: what the cases in it say, and two good lines around each."""
    for name, file in night.files.items():
        inside = [one for one in CASES if night.places[one.name].file == name]
        ends = Counter(end for one in inside for end in one.ends)
        is_cut = any(one.packing == "cut gzip" for one in inside)
        assert file.num_lines == sum(len(one.lines) + 2 for one in inside)
        assert file.num_landed == ends.pop("landed", 0) + 2 * len(inside) - is_cut
        assert (file.num_duplicates, file.num_blank) == (ends.pop("duplicate", 0), 0)
        assert dict(file.rejects_by_reason) == dict(ends) | ({"truncated_tail": 1} if is_cut else {})
        assert file.num_landed + file.num_duplicates + file.num_rejects + file.num_blank == file.num_lines


@pytest.mark.parametrize("one", [one for one in CASES if one.codes], ids=lambda one: f"{one.number}-{one.name}")
def test_what_a_known_fault_leaves_of_its_trace(night, one):
    """Its faults and its action masks, by hand; what only the gate can find is found by the gate."""
    (name,) = {row["trace_id"] for row in calls_of(one, night)}
    sequences = night.traces[name]
    assert frozenset(sequences[0]["faults"]) == one.faults
    assert masks_of(sequences) == list(one.masks)
    assert one.gate <= night.gate[name]
    assert "constant_logprob" in one.gate or "constant_logprob" not in night.gate[name]


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one.number}-{one.name}")
def test_the_lines_beside_a_known_fault_land_untouched(night, one):
    """A good line before and after, whatever stands between them; of a cut file the one before."""
    for place in ("before",) if one.packing == "cut gzip" else ("before", "after"):
        (row,) = night.traces[f"{one.name}.{place}"]
        assert (row["faults"], masks_of([row])) == ([], [FIRST])
        assert row["token_logprobs"][6:] == [-0.5, -0.75, -0.0625, -0.03125]


def test_what_is_odd_between_calls_is_noted_for_no_other_case(night):
    """The notes of the whole night are those of the cases."""
    expected: Counter[str] = Counter()
    for one in CASES:
        expected.update(one.notes)
    assert night.notes == dict(expected)


def test_a_revised_score_counts_by_the_time_of_its_event(night):
    """The later event came first in the file."""
    (backwards,) = (one for one in CASES if one.name == "backwards")
    later, earlier = rows_of(backwards, night)
    assert (later["value"], earlier["value"]) == (0.0, 1.0)
    assert night.scores["backwards"] == 0.0


def test_every_known_fault_has_a_case_or_a_reason_why_not():
    """No number of the list is left out, and none is made up."""
    assert {one.number for one in CASES} | {one.number for one in NOT_MADE} == set(FAULTS)
    assert len({one.name for one in CASES}) == len(CASES)


def test_the_page_says_what_the_cases_say():
    """docs/faults.md is written by `python -m tests.ingest.known_faults`."""
    assert PAGE.read_text("utf-8") == page()
