"""Calls as rows: what is redacted of them, and what the settings still find."""

from __future__ import annotations

from pathlib import Path

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.meaning import Deployment
from ingest.redact import RedactSettings
from ingest.settings import LogSettings
from tests.ingest.hand_made import G1, L1, NOW, P1, envelope, line, response

ADDRESS = "alice@example.com"
SETTINGS = LogSettings(redact=RedactSettings(detectors=("email",), patterns={"badge": "E-[0-9]{6}"}))


def landed(lake, path: Path, deployments: dict[str, Deployment], **changes):
    """The one call of a line, and its trace."""
    answer = response(P1, G1, L1) | changes.pop("answer", {})
    path.write_bytes(line(envelope(answer, **changes)) + b"\n")
    land_calls(lake, [str(path)], deployments=deployments, settings=SETTINGS, now=NOW)
    assemble(lake, deployments=deployments, settings=SETTINGS, now=NOW)
    (call,) = lake.read("calls").to_pylist()
    (trace,) = lake.read("current_traces").to_pylist()
    return call, trace


def test_no_column_of_a_call_or_trace_holds_an_address(lake, tmp_path):
    """Names of deployments, engines and weights are texts that somebody wrote, too."""
    answer = {"system_fingerprint": ADDRESS, "id": ADDRESS, "model": ADDRESS}
    answer["choices"] = [
        response(P1, G1, L1, text=ADDRESS, weight_versions=[{"version": ADDRESS, "start": 0, "end": 4}])["choices"][0]
    ]
    names = dict.fromkeys(("deployment", "session_id", "ask_id", "workload", "user"), ADDRESS)
    for row in landed(lake, tmp_path / "log", {}, answer=answer, **names):
        assert ADDRESS not in str(row)


def test_names_that_the_settings_know_keep_their_meaning(lake, tmp_path):
    """A model's name that a detector would hide still says the version when the trace is put together."""
    deployments = {"desk": Deployment(version_pattern="@(v[0-9]+)$", generation_config="vllm")}
    answer = {"model": "E-123456@v1"}
    call, trace = landed(lake, tmp_path / "log", deployments, answer=answer, deployment=None)
    assert (call["policy_version"], trace["policy_version_min"], call["model"]) == ("v1", "v1", "E-123456@v1")
