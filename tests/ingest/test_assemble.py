"""Calls to traces across files and nights."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from ingest.assemble import AssembleReport, assemble
from ingest.land import land_calls
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from ingest.trace_rows import split_of
from tests.ingest.hand_made import (
    DEPLOYMENTS,
    G1,
    G2,
    L1,
    L2,
    NOW,
    P1,
    P2,
    START,
    entries,
    envelope,
    first_call,
    line,
    response,
    second_call,
    write,
)
from warehouse.lake import Lake

A, B = first_call(), second_call()


def night(lake: Lake, *lines: bytes, settings: LogSettings | None = None) -> AssembleReport:
    """Land these lines as a new file and put traces together."""
    settings = settings or LogSettings()
    path = write(lake.root.parent / f"{lake.snapshot()}.jsonl", *lines)
    land_calls(lake, [path], deployments=DEPLOYMENTS, settings=settings, now=NOW)
    return assemble(lake, deployments=DEPLOYMENTS, settings=settings, now=NOW)


def traces(lake: Lake) -> list[dict[str, Any]]:
    """Current sequences, in order."""
    return lake.read("current_traces", order_by=["trace_id", "sequence_index"]).to_pylist()


def test_two_calls_become_one_sequence(lake):
    """Tokens, mask, log-probabilities and spans are those of the worked example."""
    report = night(lake, B, A)
    (row,) = traces(lake)
    assert row["token_ids"] == P2 + G2
    assert row["action_mask"] == [False] * 6 + [True] * 4 + [False] * 4 + [True] * 3
    assert row["token_logprobs"] == [None] * 6 + L1 + [None] * 4 + L2
    assert [(s["start"], s["end"], s["owned"], s["fault"], s["call_index"]) for s in row["spans"]] == [
        (6, 10, True, None, 0),
        (14, 17, True, None, 1),
    ]
    assert (row["prompt_length"], row["num_action_tokens"], row["num_calls"], row["num_sequences"]) == (6, 7, 2, 1)
    assert (row["faults"], row["logprob_exact"], row["branch_kind"]) == ([], True, "main")
    assert report == AssembleReport(num_traces=1, num_sequences=1, num_new=1)


def test_a_trace_says_who_asked_what_and_when(lake):
    """Once for all its sequences."""
    night(lake, A, B)
    (row,) = traces(lake)
    assert (row["ask_id"], row["session_id"], row["workload"], row["deployment"]) == ("ask-41", "s-1", "refunds", "toy")
    assert (row["ask_text"], row["reply_text"], row["engine"]) == ("refund 41?", "done", "vllm")
    assert (row["started_at"], row["ended_at"]) == (START, START + timedelta(seconds=1))
    assert (row["policy_version_min"], row["policy_version_max"]) == ("v7", "v7")
    assert [span["policy_version"] for span in row["version_spans"]] == ["v7", "v7"]


def test_a_late_call_supersedes_its_trace_and_touches_no_other(lake):
    """A higher revision; the one before stays, and a trace without news is not written again."""
    night(lake, A, first_call(trace_id="other"))
    report = night(lake, B)
    assert (report.num_traces, report.num_new, report.num_revised) == (1, 0, 1)
    assert [(row["trace_id"], row["trace_revision"], row["num_calls"]) for row in traces(lake)] == [
        ("other", 0, 1),
        ("trace-a", 1, 2),
    ]
    assert lake.read("traces").num_rows == 3
    assert night(lake, B) == AssembleReport()


def test_a_late_call_may_be_the_first_of_its_trace(lake):
    """The first half of a trace can come a night later."""
    night(lake, B)
    assert traces(lake)[0]["prompt_length"] == 14
    night(lake, A)
    assert traces(lake)[0]["prompt_length"] == 6


def test_a_text_only_trace_is_still_a_trace(lake):
    """Without tokens, with its faults and its text."""
    night(lake, line(envelope(response(None, None, None))))
    (row,) = traces(lake)
    assert (row["token_ids"], row["num_action_tokens"], row["prompt_length"]) == ([], 0, 0)
    assert row["faults"] == ["no_behavior_logprobs", "no_prompt_ids", "no_token_ids"]
    assert [(s["start"], s["end"], s["fault"]) for s in row["spans"]] == [(0, 0, "no_behavior_logprobs")]
    assert (row["reply_text"], row["policy_version_min"]) == ("done", "v7")


def test_ids_without_logprobs_still_stitch(lake):
    """The tokens are known, the numbers are null and nothing is trained there."""
    night(lake, line(envelope(response(P1, G1, None))), B)
    (row,) = traces(lake)
    assert row["token_ids"] == P2 + G2
    assert row["token_logprobs"] == [None] * 14 + L2
    assert row["action_mask"] == [False] * 14 + [True] * 3
    assert row["faults"] == ["no_behavior_logprobs"]


@pytest.mark.parametrize(
    ("logprobs", "kept", "fault"),
    [
        ([-0.5, -9999.0, -0.0625, -0.03125], [-0.5, None, -0.0625, -0.03125], "sentinel_logprob"),
        ([-0.5, None, -0.0625, -0.03125], [-0.5, None, -0.0625, -0.03125], "no_behavior_logprobs"),
        ([-0.5, 0.25, -0.0625, -0.03125], [-0.5, None, -0.0625, -0.03125], "positive_logprob"),
        (L1[:3], [None] * 4, "len_mismatch"),
    ],
)
def test_only_real_numbers_are_kept_and_a_faulty_call_is_masked_out(lake, logprobs, kept, fault):
    """Never an invented one; the other call of the trace keeps its mask."""
    night(lake, line(envelope(response(P1, G1, logprobs))), B)
    (row,) = traces(lake)
    assert row["token_logprobs"][6:10] == kept
    assert row["action_mask"] == [False] * 14 + [True] * 3
    assert row["spans"][0]["fault"] == fault
    assert row["faults"] == [fault]


def test_rounding_above_zero_is_zero(lake):
    """Log-probabilities are never positive where they are trained on."""
    night(lake, line(envelope(response(P1, G1, [5e-7, -0.75, -0.0625, -0.03125]))))
    assert traces(lake)[0]["token_logprobs"][6] == 0.0
    assert math.copysign(1, traces(lake)[0]["token_logprobs"][6]) == 1.0


def test_two_versions_in_one_trace_are_ambiguous(lake):
    """Weights changed between its calls."""
    later = {**response(P2, G2, L2), "model": "toy@v8", "id": "chatcmpl-2"}
    night(lake, A, line(envelope(later, call_index=1)))
    (row,) = traces(lake)
    assert row["faults"] == ["version_ambiguous"]
    assert (row["policy_version_min"], row["policy_version_max"]) == ("v7", "v8")


def test_an_unused_retry_does_not_spoil_its_trace(lake):
    """It is kept as an abandoned sequence, masked out, behind the others."""
    retry = line(envelope({**response(P1, [201, 13], [-0.5, -9999.0]), "id": "chatcmpl-r"}))
    report = night(lake, retry, A, B)
    first, second = traces(lake)
    assert (first["branch_kind"], second["branch_kind"]) == ("main", "abandoned")
    assert (first["num_action_tokens"], second["num_action_tokens"]) == (7, 0)
    assert first["faults"] == second["faults"] == []
    assert second["spans"][0]["fault"] == "sibling_not_used"
    assert (report.num_forked, dict(report.notes)) == (0, {"sibling_not_used": 1})


def test_several_choices_are_quarantined(lake):
    """A ranker that chose among them is a policy that nobody logged."""
    answer = response(P1, G1, L1)
    answer["choices"].append({**answer["choices"][0], "index": 1, "token_ids": G1[::-1]})
    answer["usage"]["completion_tokens"] = 8
    night(lake, line(envelope(answer)), B)
    assert {row["branch_kind"] for row in traces(lake)} == {"main", "abandoned"}
    assert traces(lake)[0]["faults"] == ["best_of_n"]


def test_a_call_that_sampled_nothing_is_no_action(lake):
    """An aborted call alone is a trace without action tokens."""
    night(lake, line(envelope(response(P1, [], [], finish_reason="abort"))))
    (row,) = traces(lake)
    assert (row["faults"], row["truncated"], row["prompt_length"]) == (["no_action_tokens"], True, 6)


def test_parameters_of_a_sequence_are_common_or_lowest(lake):
    """Mixed temperatures are unknown; the lowest nucleus bound counts."""
    mixed = {"temperature": 0.5, "top_p": 0.9, "top_k": 20}
    night(lake, A, second_call(request=mixed))
    (row,) = traces(lake)
    assert (row["temperature"], row["top_p"], row["top_k"]) == (None, 0.9, 20)
    assert (row["logprob_exact"], row["faults"]) == (False, ["sampling_mixed", "truncated_support"])


def test_calls_at_different_temperatures_are_mixed_sampling(lake):
    """Each is exact by itself, but a trace is scored at one temperature; one that all calls share is no fault."""
    night(lake, A, second_call(request={"temperature": 0.5}))
    night(lake, *(call(trace_id="cool", request={"temperature": 0.5}) for call in (first_call, second_call)))
    assert [(row["trace_id"], row["temperature"], row["faults"]) for row in traces(lake)] == [
        ("cool", 0.5, []),
        ("trace-a", None, ["sampling_mixed"]),
    ]


def test_sequences_at_different_temperatures_are_mixed_sampling_too(lake):
    """A sub-agent at another temperature: no score could ever arrive, so the trace must not wait for one."""
    told = {"temperature": 0.5, "messages": [{"role": "system", "content": "You look up orders."}]}
    agent = {**response([2, 10], [7, 13], L1[:2]), "id": "chatcmpl-s"}
    night(lake, A, line(envelope(agent, call_index=1, request=told)))
    assert [(row["temperature"], row["faults"]) for row in traces(lake)] == [
        (1.0, ["sampling_mixed"]),
        (0.5, ["sampling_mixed"]),
    ]


def test_top_tokens_stand_at_their_positions(lake):
    """Where the log has them by id."""
    answer = response(P1, G1[:1], L1[:1])
    content = entries(L1[:1], ["token_id:201"])
    content[0]["top_logprobs"] = [{"token": "token_id:201", "logprob": -0.5}, {"token": "token_id:9", "logprob": -1.5}]
    answer["choices"][0]["logprobs"]["content"] = content
    night(lake, line(envelope(answer)))
    (row,) = traces(lake)
    assert row["top_token_ids"] == [None] * 6 + [[201, 9]]
    assert row["top_token_logprobs"] == [None] * 6 + [[-0.5, -1.5]]


def test_chains_of_one_trace_are_named_by_their_messages(lake):
    """Another system prompt is a sub-agent; a prompt that quotes an earlier reply is a compaction."""
    summary = "The customer wants order 41 refunded."
    told = {"messages": [{"role": "system", "content": "You look up orders."}, {"role": "user", "content": "41"}]}
    compact = {
        "messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": f"So far: {summary}"}]
    }

    def root(first: int, number: int, **changes: Any) -> bytes:
        answer = {**response([first, 10], [7, 13], L1[:2], text="ok"), "id": f"chatcmpl-{first}"}
        return line(envelope(answer, call_index=number, **changes))

    night(
        lake, line(envelope(response(P1, G1, L1, text=summary))), root(2, 1, request=told), root(3, 2, request=compact)
    )
    assert [row["branch_kind"] for row in traces(lake)] == ["main", "subagent", "compaction"]


def test_the_split_follows_the_ask(lake):
    """Every trace of an ask falls on one side, whatever the night; about the stated share is held out."""
    night(lake, *(first_call(trace_id=f"t{n}", ask_id=f"ask-{n % 20}") for n in range(60)))
    sides: dict[str, set[str]] = {}
    for row in traces(lake):
        sides.setdefault(row["ask_id"], set()).add(row["split"])
    assert all(len(side) == 1 for side in sides.values())
    held_out = sum(split_of(f"ask-{n}", 0.1) == "holdout" for n in range(10_000))
    assert 900 < held_out < 1100  # 0.1 of 10,000, within 3.3 standard deviations of 30
    assert {split_of("x", 0.0), split_of("y", 0.0)} == {"train"}


def test_traces_of_one_text_without_an_ask_id_fall_on_one_side(lake):
    """The text is the ask where nothing names it; without a text each trace is its own."""
    same = [first_call(trace_id=f"s{n}", ask_id=None) for n in range(30)]
    mute = [first_call(trace_id=f"m{n}", ask_id=None, request={"messages": []}) for n in range(30)]
    night(lake, *same, *mute, settings=LogSettings(holdout_share=0.5))
    sides = [(row["trace_id"][0], row["split"]) for row in traces(lake)]
    assert len({side for kind, side in sides if kind == "s"}) == 1
    assert {side for kind, side in sides if kind == "m"} == {"train", "holdout"}


@pytest.mark.parametrize(("first", "then"), [(0.0, 0.9999), (0.9999, 0.0)])
def test_a_trace_stays_on_its_side(lake, first, then):
    """Neither another share nor a late call that names the ask moves it."""
    night(lake, first_call(ask_id=None), settings=LogSettings(holdout_share=first))
    (before,) = traces(lake)
    night(lake, B, settings=LogSettings(holdout_share=then))
    (after,) = traces(lake)
    assert (after["trace_revision"], after["ask_id"], after["split"]) == (1, "ask-41", before["split"])


def test_the_tokenizer_comes_from_the_settings(lake):
    """It is no part of a log line."""
    path = write(lake.root.parent / "log", A)
    stated = {"toy": Deployment(tokenizer_sha256="f" * 64)}
    land_calls(lake, [path], deployments=stated, settings=LogSettings(), now=NOW)
    assemble(lake, deployments=stated, settings=LogSettings(), now=NOW)
    assert traces(lake)[0]["tokenizer_sha256"] == "f" * 64


def test_small_groups_write_what_one_would(lake):
    """Traces are put together a bounded number of tokens at a time."""
    lines = [call for n in range(12) for call in (second_call(trace_id=f"t{n}"), first_call(trace_id=f"t{n}"))]
    seen: list[int] = []
    path = write(lake.root.parent / "log", *lines)
    settings = LogSettings(assemble_tokens=500)
    land_calls(lake, [path], deployments=DEPLOYMENTS, settings=settings, now=NOW)
    assemble(
        lake,
        deployments=DEPLOYMENTS,
        settings=settings,
        now=NOW,
        progress=lambda _s, done, _t, _u, _n="": seen.append(done),
    )
    assert [row["num_calls"] for row in traces(lake)] == [2] * 12
    assert seen[-1] == 12
    assert len(seen) > 3


def test_a_trace_that_somebody_else_put_together_meanwhile_is_left_alone(lake):
    """Two nights that overlap write each revision once."""
    lines = [first_call(trace_id=f"t{n}") for n in range(12)]
    path = write(lake.root.parent / "log", *lines)
    settings = LogSettings(assemble_tokens=300)
    land_calls(lake, [path], deployments=DEPLOYMENTS, settings=settings, now=NOW)
    others: list[int] = []

    def overtake(*_said: object) -> None:
        if not others:
            with Lake.open(lake.root) as other:
                others.append(assemble(other, settings=settings, now=NOW).num_traces)

    report = assemble(lake, settings=settings, now=NOW, progress=overtake)
    assert report.num_traces + others[0] == 12
    assert lake.read("traces", columns=["trace_revision"])["trace_revision"].to_pylist() == [0] * 12


def again(lake: Lake, deployments: dict[str, Deployment]) -> AssembleReport:
    """Put traces together under these settings, with nothing new in the logs."""
    return assemble(lake, deployments=deployments, settings=LogSettings(), now=NOW)


def test_other_settings_put_the_traces_of_their_deployment_together_anew(lake):
    """Each once, with a higher revision; those of another deployment are not touched, and a second run does nothing."""
    night(lake, A, B, first_call(trace_id="other", deployment="refund-desk-cpu"))
    raw = {**DEPLOYMENTS, "toy": DEPLOYMENTS["toy"].model_copy(update={"logprobs_mode": "raw_logprobs"})}
    report = again(lake, raw)
    assert (report.num_traces, report.num_new, report.num_revised) == (1, 0, 1)
    assert [(row["trace_id"], row["trace_revision"], row["logprob_kind"]) for row in traces(lake)] == [
        ("other", 0, "processed"),
        ("trace-a", 1, "raw"),
    ]
    assert again(lake, raw) == AssembleReport()
    again(lake, DEPLOYMENTS)
    assert [(row["trace_revision"], row["logprob_kind"]) for row in traces(lake)] == [
        (0, "processed"),
        (2, "processed"),
    ]


def test_a_deployment_that_is_described_late_makes_its_traces_usable(lake):
    """No file is read again."""
    path = write(lake.root.parent / "log", A, B)
    land_calls(lake, [path], deployments={}, settings=LogSettings(), now=NOW)
    again(lake, {})
    (before,) = traces(lake)
    assert before["faults"] == ["logprob_kind_unknown", "sampling_params_unknown", "version_unknown"]
    again(lake, DEPLOYMENTS)
    (after,) = traces(lake)
    assert (after["faults"], after["logprob_exact"], after["policy_version_min"]) == ([], True, "v7")
    assert (after["split"], after["token_ids"]) == (before["split"], before["token_ids"])


def test_settings_that_say_the_same_otherwise_touch_nothing(lake):
    """Another pattern that finds the same version, a further name, a deployment that no call names."""
    night(lake, A, B)
    toy = DEPLOYMENTS["toy"].model_copy(update={"version_pattern": "@(v7)$", "names": ("t",)})
    assert again(lake, {"toy": toy, "new": Deployment(engine="sglang")}) == AssembleReport()


def test_traces_that_do_not_say_their_settings_are_put_together_once(lake):
    """As an older lake wrote them."""
    path = write(lake.root.parent / "log", A, B)
    land_calls(lake, [path], deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
    again(lake, DEPLOYMENTS)
    older = [{**row, "meaning_sha256": None} for row in lake.read("traces").to_pylist()]
    with lake.transaction() as transaction:
        transaction.append("traces", [{**row, "trace_id": "trace-b"} for row in older])
    late = write(lake.root.parent / "late", first_call(trace_id="trace-b"), second_call(trace_id="trace-b"))
    land_calls(lake, [late], deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
    assert again(lake, DEPLOYMENTS).num_revised == 1
    assert again(lake, DEPLOYMENTS) == AssembleReport()
