"""What `tracemill check` finds out without a lake."""

from __future__ import annotations

from ingest.look import look
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, EXAMPLE, envelope, first_call, line, response, second_call, write


def test_the_recorded_logs_are_seen_as_they_are():
    """The counts of the truth table, and the same 689 traces that landing finds."""
    seen = look([str(EXAMPLE / "logs")], deployments=DEPLOYMENTS, settings=LogSettings())
    assert (seen.num_files, seen.num_lines, seen.num_calls, seen.num_duplicates) == (4, 1611, 1596, 13)
    assert (seen.num_traces, seen.num_trainable) == (800, 689)
    assert seen.rejects_by_reason == {"bad_json": 1, "truncated_tail": 1}
    (group,) = seen.groups
    assert (group.log_format, group.deployment, group.num_streamed) == ("vllm_chat", "refund-desk-cpu", 110)
    assert group.sampling == {
        "temperature 1, top-p 1, top-k off": 1508,
        "temperature 1, top-p 0.8, top-k off": 48,
        "temperature 0.7, top-p 1, top-k off": 40,
    }
    assert group.versions == {"v100": 478, "v104": 479, "v108": 480, "v109": 159}


def test_a_log_without_logprobs_names_the_switch(tmp_path):
    """One sentence for each thing that is missing, with what to turn on."""
    path = write(tmp_path / "log", line(envelope(response(None, None, None))), b"")
    seen = look([path], deployments=DEPLOYMENTS, settings=LogSettings())
    missing = {one.reason.code: (one.num_traces, one.reason.fix) for one in seen.missing}
    assert set(missing) == {"no_behavior_logprobs", "no_token_ids", "no_prompt_ids"}
    assert '"logprobs": true' in missing["no_behavior_logprobs"][1]
    assert "return_token_ids" in missing["no_token_ids"][1]
    assert seen.sentence == "0 of 1 traces are fit for ratio methods, as far as the log shows"
    assert seen.num_blank == 1


def test_without_settings_the_meaning_is_what_is_missing(tmp_path):
    """Kind, version and parameters, each with the setting that states it."""
    path = write(tmp_path / "log", first_call(), second_call())
    seen = look([path], deployments={}, settings=LogSettings())
    fixes = {one.reason.code: one.reason.fix for one in seen.missing}
    assert set(fixes) == {"logprob_kind_unknown", "version_unknown", "sampling_params_unknown"}
    assert all("[deployments.NAME]" in fix or "version_pattern" in fix for fix in fixes.values())


def test_mixed_versions_are_seen(tmp_path):
    """As assembling would."""
    mixed = line(envelope({**response([1], [2], [-0.5]), "model": "toy@v8", "id": "x"}, trace_id="b"))
    path = write(tmp_path / "log", first_call(), first_call(trace_id="b"), mixed)
    seen = look([path], deployments=DEPLOYMENTS, settings=LogSettings())
    assert {one.reason.code: one.num_traces for one in seen.missing} == {"version_ambiguous": 1}


def test_nothing_readable_is_said_so(tmp_path):
    """A file of errors."""
    path = write(tmp_path / "log", b"oops", b"x" * 5000)
    seen = look([path], deployments={}, settings=LogSettings(max_line_bytes=1024))
    assert seen.sentence == "no call in these files can be read"
    assert seen.rejects_by_reason == {"bad_json": 1, "line_too_long": 1}


def test_all_whole_is_said_so(tmp_path):
    """The toy trace."""
    path = write(tmp_path / "log", first_call(), second_call(), first_call())
    seen = look([path], deployments=DEPLOYMENTS, settings=LogSettings())
    assert seen.sentence == "all 1 traces are fit for ratio methods, as far as the log shows"
    assert (seen.num_lines, seen.num_calls, seen.num_duplicates, seen.missing) == (3, 2, 1, ())
