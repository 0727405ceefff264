"""However the recorded lines are shuffled, repeated and split over files and nights, the tables say the same."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.lines import LineReader
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, EXAMPLE, G1, G2, NOW, P1, P2, entries, envelope, line, response
from warehouse.lake import Lake

_PROVENANCE = ["uri", "byte_offset", "ingested_at", "user_hash"]
_STRIDE = 37


def _lines() -> list[bytes]:
    """Lines of some 15 recorded traces: streams, text only, damaged and forked ones among them, and one bad line."""
    chosen: list[bytes] = []
    for path in sorted((EXAMPLE / "logs").iterdir()):
        with LineReader(str(path), 2**20) as reader:
            lines = [line.text for block in reader.blocks() for line in block if line.is_terminated]
        good = [line for line in lines if line.startswith(b"{")]
        wanted = {json.loads(line)["trace_id"] for line in good[3::_STRIDE]}
        wanted |= {json.loads(line)["trace_id"] for line in good if b"-9999.0" in line}
        chosen += [line for line in good if json.loads(line)["trace_id"] in wanted]
    return [*dict.fromkeys(chosen), b"upstream connect error"]


def _made() -> list[bytes]:
    """Lines of what the recording does not have: retries, forks, choices, copies with other numbers, cut streams.

    And one response in three envelopes, each of which says something that another leaves out.
    """

    def call(
        name: str, prompt: list[int] | None, ids: list[int], at: int, logprobs: list[float] | None = None
    ) -> bytes:
        answer = {**response(prompt, ids, logprobs or [-0.5] * len(ids)), "id": name}
        return line(envelope(answer, call_index=at, trace_id="made"))

    cut = {
        "choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": [70], "logprobs": {"content": entries([-1])}}]
    }
    stream = [{"id": "cut", "created": 1, "model": "toy@v7", "prompt_token_ids": [*P2, *G2, 12], **cut}]
    two = response(P1, [5], [-0.5])
    two["choices"].append({**two["choices"][0], "index": 1, "token_ids": [6]})
    poor = envelope(
        response(P1, G1, [-0.5] * 4), trace_id="told", request={"messages": None}, ask_id=None, session_id=None
    )
    for name in ("temperature", "top_p", "top_k"):
        del poor["request"][name]
    return [
        line(poor),
        line(envelope(response(P1, G1, [-0.5] * 4), trace_id="told")),
        line(envelope(response(P1, G1, [-0.5] * 4), trace_id="told", request={"min_p": 0.1}, workload=None)),
        call("a", P1, G1, 0),
        call("a", P1, G1, 0, [-0.5, -0.5, -0.5, -4.0]),
        call("b", P2, G2, 1),
        call("retry", P2, [401, 13], 2),
        call("fork", [2, *P2], G2, 3),
        line(envelope(stream, call_index=4, trace_id="made")),
        call("on", [*P2, *G2, 12, 70, 11], [71], 5),
        call("bare", None, [80], 6),
        line(envelope(two, call_index=8, trace_id="choices")),
    ]


LINES = [*_lines(), *_made()]


def _content(lake: Lake) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls and current traces, without what says only where and when they were read."""
    calls = lake.read("calls", order_by=["call_id"]).drop_columns(_PROVENANCE).to_pylist()
    traces = lake.read("current_traces", order_by=["trace_id", "sequence_index"])
    return calls, traces.drop_columns(["trace_revision", "ingested_at", "user_hash"]).to_pylist()


@pytest.fixture(scope="module")
def expected(empty_lake: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What one file in one night gives."""
    return _landed(empty_lake, [[LINES]])


def _landed(
    empty_lake: Path, nights: list[list[list[bytes]]], earlier: Mapping[str, Deployment] = DEPLOYMENTS
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The content after these nights of files; every second file is compressed, and no line is lost on the way.

    `earlier` are the settings of all nights but the last.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(empty_lake, root / "lake")
        with Lake.open(root / "lake") as lake:
            for night, files in enumerate(nights):
                deployments = DEPLOYMENTS if night == len(nights) - 1 else earlier
                for number, lines in enumerate(files):
                    content = b"".join(one + b"\n" for one in lines)
                    packed = gzip.compress(content) if number % 2 else content
                    (root / f"{night}-{number}.log").write_bytes(packed)
                report = land_calls(
                    lake, [f"{root}/{night}-*.log"], deployments=deployments, settings=LogSettings(), now=NOW
                )
                assert report.num_lines == sum(len(lines) for lines in files)
                states = (report.num_landed, report.num_duplicates, report.num_rejects, report.num_blank)
                assert sum(states) == report.num_lines
                assemble(lake, deployments=deployments, settings=LogSettings(), now=NOW)
            return _content(lake)


@st.composite
def _nights(draw: st.DrawFn) -> list[list[list[bytes]]]:
    """The lines once to three times each, in any order, over up to three nights of up to two files."""
    copies = draw(st.lists(st.integers(1, 3), min_size=len(LINES), max_size=len(LINES)))
    lines = draw(st.permutations([one for one, number in zip(LINES, copies, strict=True) for _ in range(number)]))
    num_nights, num_files = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    nights: list[list[list[bytes]]] = [[[] for _ in range(num_files)] for _ in range(num_nights)]
    for one in lines:
        nights[draw(st.integers(0, num_nights - 1))][draw(st.integers(0, num_files - 1))].append(one)
    return nights


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nights=_nights())
def test_any_delivery_gives_the_same_tables(empty_lake, expected, nights):
    """Exactly once, in whatever order and however often."""
    assert _landed(empty_lake, nights) == expected


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nights=_nights(), earlier=st.sampled_from([{}, {"toy": Deployment(policy_version="v1", vocabulary_size=300)}]))
def test_any_earlier_settings_leave_no_trace(empty_lake, expected, nights, earlier):
    """Traces mean what the settings of the last night say, whatever was stated when their calls landed."""
    assert _landed(empty_lake, nights, earlier)[1] == expected[1]


def test_envelopes_that_say_more_or_less_make_one_trace(expected):
    """All parameters, the ask and the session are known, whichever of the three came first."""
    (row,) = [row for row in expected[1] if row["trace_id"] == "told"]
    assert (row["num_calls"], row["num_sequences"], row["temperature"], row["top_p"]) == (3, 1, 1.0, 1.0)
    assert (row["ask_id"], row["session_id"], row["workload"]) == ("ask-41", "s-1", "refunds")
    assert row["faults"] == ["truncated_support"]
