"""What real clients of gateways and tracing systems wrote, from the file to the sequence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from tests.ingest.hand_made import NOW
from tests.ingest.tracing_made import IDS, PROMPT
from warehouse.lake import Lake

RECORDED = Path(__file__).parent / "recorded"
STATES = {
    "langfuse.jsonl": (3, 0, 0, 1),
    "litellm_ducklake.jsonl": (2, 0, 1, 0),
    "litellm_standard.jsonl": (4, 0, 1, 0),
    "mlflow_trace.jsonl": (1, 0, 0, 0),
    "openinference.spans.jsonl": (2, 0, 0, 1),
    "opentelemetry_current.logs.jsonl": (1, 0, 0, 0),
    "opentelemetry_current.spans.jsonl": (1, 0, 0, 0),
    "opentelemetry_events.logs.jsonl": (0, 0, 1, 0),
    "opentelemetry_events.spans.jsonl": (1, 0, 0, 0),
    "traceloop_numbered.jsonl": (1, 0, 0, 1),
    "traceloop_parts.jsonl": (1, 0, 0, 1),
}
"""Lines that land, that are duplicates, rejects and blank."""
WHOLE = (
    "langfuse.jsonl",
    "litellm_ducklake.jsonl",
    "litellm_standard.jsonl",
    "mlflow_trace.jsonl",
    "openinference.spans.jsonl",
)
"""Files of clients that keep the server's whole answer."""

SETTINGS = LogSettings()
DEPLOYMENTS = {
    "toy": Deployment(logprobs_mode="processed_logprobs", generation_config="vllm", version_pattern="@(v[0-9]+)$")
}


@pytest.mark.parametrize("name", STATES)
def test_every_line_of_a_real_client_ends_in_the_state_that_it_should(lake: Lake, name: str):
    """Each file alone."""
    report = land_calls(lake, [str(RECORDED / name)], deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
    (file,) = report.files
    assert (file.num_landed, file.num_duplicates, file.num_rejects, file.num_blank) == STATES[name]


@pytest.mark.parametrize("name", WHOLE)
def test_a_client_that_keeps_the_answer_gives_the_toy_sequence(lake: Lake, name: str):
    """Prompt and reply of the toy call, masked as sampled, with version 7 and no fault."""
    land_calls(lake, [str(RECORDED / name)], deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
    assemble(lake, deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
    columns = ["token_ids", "action_mask", "policy_version_min"]
    rows = lake.read("traces", columns=columns).to_pylist()
    assert {
        "token_ids": PROMPT + IDS,
        "action_mask": [False] * 6 + [True] * 4,
        "policy_version_min": "v7",
    } in rows


def test_a_span_and_its_event_are_one_call(lake: Lake):
    """The second file of the two tells nothing new."""
    files = [str(RECORDED / f"opentelemetry_current.{kind}.jsonl") for kind in ("logs", "spans")]
    report = land_calls(lake, files, deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
    assert [(file.num_landed, file.num_duplicates) for file in report.files] == [(1, 0), (0, 1)]


def test_both_rows_of_the_sink_are_one_call_of_one_trace(lake: Lake):
    """The fuller copy is used, and that it was logged twice is noted."""
    land_calls(lake, [str(RECORDED / "litellm_ducklake.jsonl")], deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
    report = assemble(lake, deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
    assert (report.num_traces, report.num_sequences, report.notes) == (1, 1, {"call_logged_twice": 1})
