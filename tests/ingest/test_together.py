"""What the copies of one call say together."""

from __future__ import annotations

import itertools
import json

import pytest

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, G1, G2, L1, NOW, P1, P2, START, write
from tests.ingest.made_rows import built, call_row, masks, told
from tests.ingest.test_litellm_ducklake import kept, request
from warehouse.lake import Lake

POOR = {
    "ask_id": None,
    "messages_json": None,
    "sampling_json": "{}",
    "logged_deployment": None,
    "num_prompt_tokens": None,
}
BARE = ["no_token_ids", "no_prompt_ids", "no_behavior_logprobs"]


def engine(**changes):
    """The engine's copy: tokens and numbers, nothing of the request."""
    return call_row("e", P1, G1, L1, **{**POOR, "response_id": "r", "reply_text": "done", **changes})


def gateway(**changes):
    """The gateway's copy: the request and no tokens; its clock is another."""
    return call_row("g", None, None, at=3, **{"response_id": "r", "session_id": "s-1", "notes": BARE, **changes})


def test_what_one_copy_left_out_another_says():
    """Tokens of the engine; deployment, messages, parameters and names of the gateway; the earlier start."""
    trace = built(engine(), gateway(started_at=START.replace(hour=7)))
    (row,) = trace.rows
    assert (row["ask_id"], row["session_id"], row["ask_text"], row["reply_text"]) == (
        "ask-41",
        "s-1",
        "refund 41?",
        "done",
    )
    assert (row["temperature"], row["deployment"], row["started_at"].hour) == (1.0, "toy", 7)
    assert (trace.faults, masks(trace), row["num_calls"]) == (set(), ["F" * 6 + "TTTT"], 2)
    assert trace.notes == {"call_logged_twice": 1}


def test_copies_of_one_fullness_are_merged_whatever_order_and_clock():
    """Each says something of its own; of what two say otherwise, the first by id counts."""
    parts = [
        {"sampling_json": '{"temperature":0.5}', "workload": "b"},
        {"sampling_json": '{"temperature":1.0,"top_p":0.9}', "workload": "c"},
        {"sampling_json": '{"top_k":5}', "messages_json": told(("user", "41?"))},
    ]
    seen = []
    for order in itertools.permutations(range(3)):
        rows = [engine(call_id=f"c{n}", started_at=START.replace(minute=at), **parts[n]) for at, n in enumerate(order)]
        (row,) = built(*rows).rows
        seen.append((row["temperature"], row["top_p"], row["top_k"], row["workload"], row["ask_text"]))
    assert set(seen) == {(0.5, 0.9, 5, "b", "41?")}


def test_what_a_copy_says_against_the_call_counts():
    """The gateway knows of the grammar; what it left out itself says nothing."""
    assert built(engine(), gateway(notes=[*BARE, "grammar_constrained"])).faults == {"grammar_constrained"}


def test_a_field_that_names_its_kind_says_it_for_all_copies():
    """One writer kept the field's name."""
    other = gateway(notes=[*BARE, "field_says_temperature"])
    assert built(engine(), other).faults == {"logprob_kind_unknown"}  # the settings say processed


def test_copies_do_not_hide_the_successor_of_a_prompt():
    """A prompt that was not logged is still read from the next call's when its call was logged twice."""
    poor = {"response_id": "r", "num_prompt_tokens": 6, "notes": ["no_prompt_ids"]}
    first = [call_row(name, None, G1, L1, workload=name, **poor) for name in ("a", "b")]
    trace = built(*first, call_row("c", P2, G2, at=1))
    assert masks(trace) == ["F" * 6 + "TTTT" + "FFFF" + "TTT"]


@pytest.mark.parametrize("order", [0, 1])
def test_the_request_and_the_payload_of_a_gateway_are_one_call(lake: Lake, order):
    """The request's row has the user, the payload's row the messages; landed in either order, a night apart."""
    lines = [json.dumps(row).encode() for row in (request(end_user_id="u"), kept())]
    for number, text in enumerate(lines[:: 1 - 2 * order]):
        path = write(lake.root.parent / f"{number}.jsonl", text)
        land_calls(lake, [path], deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
        assemble(lake, deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
    (row,) = lake.read("current_traces").to_pylist()
    assert (row["ask_text"], row["num_calls"], row["num_action_tokens"]) == ("refund 41?", 2, 4)
    assert (row["started_at"].isoformat(), row["user_hash"] is None) == ("2026-09-21T14:13:20+00:00", False)
