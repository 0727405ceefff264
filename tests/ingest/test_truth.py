"""The recorded example ends exactly as the README beside it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.ingest.conftest import Night


def test_every_line_of_the_logs_ends_as_the_truth_table_says(example: Night) -> None:
    """Lines, calls, duplicates and rejects by file are those of an independent reading."""
    found = {
        Path(file.uri).name: (file.num_lines, file.num_landed, file.num_duplicates, dict(file.rejects_by_reason))
        for file in example.calls.files
    }
    assert found == {
        "2026-11-22.jsonl.gz": (485, 478, 7, {}),
        "2026-11-24.jsonl": (484, 479, 4, {"bad_json": 1}),
        "2026-11-26.jsonl": (480, 480, 0, {}),
        "2026-11-27.jsonl": (162, 159, 2, {"truncated_tail": 1}),
    }
    assert example.calls.num_rows == 1596


def test_calls_end_by_stop_or_length_as_recorded(example: Night) -> None:
    """1,284 calls ended by stop and 312 by length."""
    found = Counter(example.lake.read("calls", columns=["finish_reason"])["finish_reason"].to_pylist())
    assert found == {"stop": 1284, "length": 312}


def test_streams_are_whole_calls(example: Night) -> None:
    """55 traces of two calls were streamed, and each chunk's tokens found their place."""
    calls = example.lake.read("calls", where={"streamed": True})
    assert calls.num_rows == 110
    lengths = [len(ids) for ids in calls["token_ids"].to_pylist()]
    assert lengths == calls["num_completion_tokens"].to_pylist()
    assert lengths == [len(numbers) for numbers in calls["token_logprobs"].to_pylist()]


def test_traces_fall_into_the_classes_of_the_truth_table(example: Night) -> None:
    """689 usable, 38 without log-probabilities, 45 without prompt ids, 24 truncated, 2 and 2 damaged."""
    rows = example.lake.read("current_traces", columns=["faults"], where={"sequence_index": 0})
    assert Counter(tuple(faults) for faults in rows["faults"].to_pylist()) == {
        (): 689,
        ("no_behavior_logprobs", "no_prompt_ids", "no_token_ids"): 38,
        ("no_prompt_ids",): 45,
        ("truncated_support",): 24,
        ("len_mismatch",): 2,
        ("sentinel_logprob",): 2,
    }


def test_traces_are_of_the_recorded_versions(example: Night) -> None:
    """240, 240, 240 and 80 traces of v100, v104, v108 and v109."""
    rows = example.lake.read("current_traces", columns=["policy_version_min"], where={"sequence_index": 0})
    assert Counter(rows["policy_version_min"].to_pylist()) == {"v100": 240, "v104": 240, "v108": 240, "v109": 80}
    assert (example.traces.num_traces, example.traces.num_new, example.traces.num_revised) == (800, 800, 0)


def test_seventeen_usable_traces_fork(example: Night) -> None:
    """Where the next prompt was re-tokenised a trace becomes two sequences, never a patched one."""
    rows = example.lake.read("current_traces", columns=["faults", "num_sequences"], where={"sequence_index": 0})
    usable = [row["num_sequences"] for row in rows.to_pylist() if not row["faults"]]
    assert Counter(usable) == {1: 672, 2: 17}


def test_temperature_is_kept_and_processed_numbers_are_exact_under_it(example: Night) -> None:
    """20 usable traces were sampled at 0.7."""
    rows = example.lake.read("current_traces", where={"sequence_index": 0, "temperature": 0.7})
    usable = [row for row in rows.to_pylist() if not row["faults"]]
    assert len(usable) == 20
    assert all(row["logprob_exact"] and row["logprob_kind"] == "processed" for row in usable)


def test_action_tokens_are_the_sampled_tokens_of_usable_traces(example: Night) -> None:
    """Each sampled token of a usable trace is trained once: the servers' own counts add up to the masks."""
    usable = {
        row["trace_id"]
        for row in example.lake.read("current_traces", columns=["trace_id", "faults"]).to_pylist()
        if not row["faults"]
    }
    calls = example.lake.read("calls", columns=["trace_id", "num_completion_tokens"]).to_pylist()
    counted = sum(call["num_completion_tokens"] for call in calls if call["trace_id"] in usable)
    rows = example.lake.read("current_traces", columns=["trace_id", "num_action_tokens"]).to_pylist()
    assert sum(row["num_action_tokens"] for row in rows if row["trace_id"] in usable) == counted


def test_outcomes_end_as_recorded(example: Night) -> None:
    """21 events came twice, 31 traces were revised, 48 never scored, 3 do not exist."""
    assert (example.outcomes.num_lines, example.outcomes.num_landed, example.outcomes.num_duplicates) == (807, 786, 21)
    scored = Counter(example.lake.read("outcomes", columns=["trace_id"])["trace_id"].to_pylist())
    traces = set(example.lake.read("current_traces", columns=["trace_id"])["trace_id"].to_pylist())
    assert len(traces - scored.keys()) == 48
    assert len(scored.keys() - traces) == 3
    assert sum(number > 1 for number in scored.values()) == 31


def test_no_user_is_written(example: Night) -> None:
    """User names are salted hashes, and a reject shows none of them."""
    users = example.lake.read("calls", columns=["user_hash"])["user_hash"].to_pylist()
    assert all(len(user) == 32 and "@" not in user for user in users)
    shown = example.lake.read("rejects", columns=["first_bytes", "message"]).to_pylist()
    assert not any("@example.com" in text for reject in shown for text in reject.values())
