"""AReaL's responses: tokens with the version that sampled each."""

from __future__ import annotations

from tests.ingest.hand_made import G2, P2
from tests.ingest.native_made import LOGPROBS, calls, faults, is_the_toy, refusal


def response(**changes):
    """The toy's second call as AReaL keeps it."""
    lists = {"input_tokens": P2, "output_tokens": G2, "output_logprobs": LOGPROBS, "output_versions": [7, 7, 8]}
    return {"trace_id": "t-1", **lists, "stop_reason": "stop", **changes}


def test_a_response_is_the_toys_second_call():
    """Runs of one version are its spans."""
    (call,) = calls(response())
    assert is_the_toy(call)
    assert (call.log_format, call.trace_id, call.finish_reason) == ("areal_response", "t-1", "stop")
    assert call.weight_spans == (("7", 0, 2), ("8", 2, 3))


def test_a_version_below_zero_is_none():
    """A span covers only tokens whose version is known."""
    assert calls(response(output_versions=[-1, 7, 7]))[0].weight_spans == (("7", 1, 3),)
    assert calls(response(output_versions=None))[0].weight_spans == ()


def test_lists_that_do_not_fit_are_refused():
    """One version a token."""
    assert refusal(response(output_versions=[7])) == "bad_field"
    assert refusal(response(output_tokens=["401"])) == "bad_field"


def test_tokens_without_a_version_are_a_fault():
    """The version of the others is not theirs."""
    (call,) = calls(response(output_versions=[3, -1, -1]))
    assert call.weight_spans == (("3", 0, 1),)
    assert "version_spans_incomplete" in faults(call)
