"""What is read of MLflow's traces."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.outcome import Outcome
from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, SPAN, TOLD, TRACE, is_toy, otlp, payload, read, recorded, span


def made(attributes: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The reference's trace without its assessments; attributes and changes are of its one span."""
    document = payload("mlflow_trace.export")
    document["info"]["assessments"] = []
    (one,) = document["data"]["spans"]
    one["attributes"].update({name: json.dumps(value) for name, value in (attributes or {}).items()})
    one.update(changes)
    return document


def test_the_example_is_a_call_and_two_scores():
    """The stub of an answer gives the response's id; the second assessment overrides the first."""
    call, withdrawn, score = read(payload("mlflow_trace.export"))
    assert (call.trace_id, call.span_id, call.session_id) == (TRACE, SPAN, "sess-9")
    assert (call.response_id, call.messages_json, call.log_format) == ("chatcmpl-ask-41-a1-c1", ASKED, "mlflow_trace")
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)
    assert set(call.notes) == {"model_unknown", "text_not_logged"}
    assert isinstance(score, Outcome)
    assert (withdrawn.value, score.value, score.trace_id) == (None, 0.0, TRACE)
    assert withdrawn.event_time < score.event_time


def test_a_whole_answer_in_the_outputs_keeps_its_tokens():
    """Inputs are the request with its parameters, outputs the server's answer."""
    asked = {"model": "toy", "messages": json.loads(ASKED), "temperature": 1.0, "top_p": 0.9}
    (call,) = read(made({"mlflow.spanInputs": asked, "mlflow.spanOutputs": payload("vllm_chat.response")}))
    assert is_toy(call)
    assert call.sampling == {"temperature": 1.0, "top_p": 0.9}


@pytest.mark.parametrize("span_id", ["t61rcWkgMzE=", SPAN, f"0x{SPAN}"])
def test_span_ids_of_all_versions_are_spelled_alike(span_id: str):
    """Base64 today, hex before, with 0x before that."""
    (call,) = read(made(span_id=span_id))
    assert call.span_id == SPAN


def test_an_id_of_another_store_is_kept_as_it_is():
    """Some stores name traces by place."""
    document = made()
    document["info"]["trace_id"] = "trace:/catalog.schema/41"
    (call,) = read(document)
    assert call.trace_id == "trace:/catalog.schema/41"


@pytest.mark.parametrize("kind", ["CHAT_MODEL", "LLM"])
def test_only_spans_of_models_are_calls(kind: str):
    """Agents, tools and chains are not."""
    assert len(read(made({"mlflow.spanType": kind}))) == 1
    assert read(made({"mlflow.spanType": "AGENT"})) == ()


def test_previews_are_never_read():
    """They are cut."""
    document = made({"mlflow.spanInputs": None})
    document["info"] |= {"request_preview": '{"messages": [{"role"', "response_preview": "cut..."}
    (call,) = read(document)
    assert (call.messages_json, call.reply_text) == (None, None)


def test_a_failed_span_holds_no_call():
    """Nothing was sampled."""
    assert read(made({"mlflow.spanOutputs": None}, status={"code": "STATUS_CODE_ERROR"})) == ()


def test_mlflow_attributes_on_exported_spans_are_read():
    """MLflow exports its spans over OTLP with the same attributes."""
    told = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": json.dumps({"model": "toy", "messages": json.loads(ASKED)}),
        "mlflow.spanOutputs": json.dumps(payload("vllm_chat.response")),
    }
    (call,) = read(otlp(span(told)))
    assert is_toy(call)
    assert (call.messages_json, call.log_format) == (ASKED, "otlp")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"span_id": "s-1"}, "bad_trace_id"),
        ({"start_time_unix_nano": 7}, "bad_time"),
        ({"start_time_unix_nano": []}, "bad_time"),
        ({"status": []}, "bad_field"),
    ],
)
def test_a_span_that_cannot_be_read_is_a_reject(changes: dict[str, Any], reason: str):
    """Each with its reason."""
    with pytest.raises(LineError) as caught:
        read(made(**changes))
    assert caught.value.reason == reason


def test_what_mlflow_itself_wrote_is_read():
    """Autologging keeps the server's whole answer; the agent's span is no call, the assessments are scores."""
    (line,) = recorded("mlflow_trace.jsonl")
    call, withdrawn, score = read(line)
    assert is_toy(call)
    assert (call.messages_json, call.session_id, call.user, call.ask_id) == (TOLD, "sess-9", "u-1", "ask-41")
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0, "logprobs": True}
    assert (withdrawn.value, score.value, score.trace_id) == (None, 0.0, call.trace_id)
