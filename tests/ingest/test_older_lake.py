"""A lake of version 1, opened by this one: what its rows kept in other columns, and lines that come again."""

from __future__ import annotations

import json
from typing import Any

from ingest.assemble import assemble
from ingest.land import land_calls, land_outcomes
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, G1, L1, NOW, P1, envelope, first_call, line, response, write
from tests.ingest.score_examples import PLAIN
from warehouse.lake import Lake

_QUIET = DEPLOYMENTS["toy"].model_copy(update={"version_pattern": None})
_SPANS = line({**envelope({**response(P1, G1, L1), "model": "toy"}), "deployment": None})


def _land(lake: Lake, text: bytes, deployments: dict[str, Deployment]) -> int:
    path = write(lake.root.parent / f"{lake.snapshot()}.jsonl", text)
    return land_calls(lake, [path], deployments=deployments, settings=LogSettings(), now=NOW).num_landed


def _age(lake: Lake, version: str | None = None, deployment: str | None = None) -> None:
    """Make the calls rows of version 1: no new column has a value, and ids are of the first part alone."""
    with lake.exclusive(purpose="test") as connection:
        connection.execute(
            "update calls set schema_version = 1, logged_deployment = null, version_spans = null, "
            "call_id = split_part(call_id, '.', 1), policy_version = $version, deployment = $deployment",
            {"version": version, "deployment": deployment},
        )
        connection.execute("update traces set schema_version = 1, meaning_sha256 = null")


def _trace(lake: Lake, deployments: dict[str, Deployment]) -> dict[str, Any]:
    assemble(lake, deployments=deployments, settings=LogSettings(), now=NOW)
    (row,) = lake.read("current_traces").to_pylist()
    found: dict[str, Any] = row
    return found


def test_a_row_of_version_1_keeps_its_weights_version_and_its_deployment(lake: Lake):
    """They are in the columns that version 1 had; settings that name a version go first."""
    quiet = {"toy": _QUIET}
    _land(lake, _SPANS, quiet)
    assert _trace(lake, quiet)["faults"] == [
        "logprob_kind_unknown",
        "sampling_params_unknown",
        "version_unknown",
    ]
    _age(lake, version="w9", deployment="toy")
    row = _trace(lake, quiet)
    assert (row["faults"], row["policy_version_min"], row["deployment"]) == ([], "w9", "toy")
    assert _trace(lake, {"toy": _QUIET.model_copy(update={"policy_version": "v3"})})["policy_version_min"] == "v3"
    assert assemble(lake, deployments=quiet, settings=LogSettings(), now=NOW).num_traces == 1
    assert assemble(lake, deployments=quiet, settings=LogSettings(), now=NOW).num_traces == 0


def test_a_row_of_this_version_means_what_a_fresh_lake_would_say(lake: Lake):
    """What was found when it landed counts no more once the settings find nothing."""
    listed = {"toy": _QUIET.model_copy(update={"models": ("toy",), "policy_version": "v3"})}
    _land(lake, _SPANS, listed)
    assert lake.read("calls")["deployment"].to_pylist() == ["toy"]
    assert _trace(lake, listed)["policy_version_min"] == "v3"
    row = _trace(lake, {"toy": _QUIET})
    assert (row["deployment"], row["policy_version_min"]) == (None, None)
    assert assemble(lake, deployments={"toy": _QUIET}, settings=LogSettings(), now=NOW).num_traces == 0


def test_a_line_that_version_1_landed_is_a_duplicate(lake: Lake):
    """Whatever this version reads in it beside what version 1 read; a row of this version is known by all of it."""
    assert _land(lake, first_call(), DEPLOYMENTS) == 1
    assert _land(lake, first_call(session_id="s-2"), DEPLOYMENTS) == 1
    with lake.exclusive(purpose="test") as connection:
        connection.execute("delete from calls where session_id = 's-2'")
    _age(lake)
    assert [_land(lake, first_call(session_id=name), DEPLOYMENTS) for name in ("s-1", "s-2")] == [0, 0]


def test_a_score_that_version_1_landed_is_a_duplicate(lake: Lake):
    """Its label and its session were not read then."""
    text = json.dumps(PLAIN | {"label": "good", "session_id": "s"}).encode()
    path = write(lake.root.parent / "scores.jsonl", text)
    assert land_outcomes(lake, [path], settings=LogSettings(), now=NOW).num_landed == 1
    with lake.exclusive(purpose="test") as connection:
        connection.execute("update outcomes set schema_version = 1, outcome_id = split_part(outcome_id, '.', 1)")
    for name, landed in (("good", 0), ("better", 0)):
        again = write(lake.root.parent / f"{name}.jsonl", text.replace(b"good", name.encode()))
        assert land_outcomes(lake, [again], settings=LogSettings(), now=NOW).num_landed == landed
    other = write(lake.root.parent / "other.jsonl", text.replace(b"09:00:00", b"10:00:00"))
    assert land_outcomes(lake, [other], settings=LogSettings(), now=NOW).num_landed == 1
