"""One score of each system, as its documents show it."""

from __future__ import annotations

from typing import Any

LANGFUSE: dict[str, Any] = {
    "id": "sc-1",
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "observationId": None,
    "sessionId": None,
    "name": "ticket_outcome",
    "value": 1,
    "stringValue": "True",
    "dataType": "BOOLEAN",
    "source": "API",
    "environment": "production",
    "timestamp": "2026-09-22T09:00:00.000Z",
    "createdAt": "2026-09-22T09:00:01.000Z",
    "updatedAt": "2026-09-22T09:00:01.000Z",
    "comment": None,
    "configId": None,
    "metadata": {},
}

OTEL: dict[str, Any] = {
    "eventName": "gen_ai.evaluation.result",
    "timeUnixNano": "1790086400000000000",
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "attributes": [
        {"key": "gen_ai.evaluation.name", "value": {"stringValue": "ticket_outcome"}},
        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 1.0}},
        {"key": "gen_ai.evaluation.score.label", "value": {"stringValue": "resolved"}},
        {"key": "gen_ai.response.id", "value": {"stringValue": "chatcmpl-ask-41-a1-c2"}},
    ],
}

CARRIER: dict[str, Any] = {
    "name": "annotation",
    "context": {"trace_id": "ffffffffffffffffffffffffffffffff", "span_id": "1111111111111111"},
    "links": [{"context": {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}}],
    "attributes": {
        "trace.annotations.0.annotation.name": "ticket_outcome",
        "trace.annotations.0.annotation.score": 1.0,
        "trace.annotations.0.annotation.label": "resolved",
        "trace.annotations.0.annotation.annotator_kind": "HUMAN",
        "trace.annotations.0.annotation.identifier": "desk",
    },
}

PHOENIX: dict[str, Any] = {
    "id": "U3BhbjoxOjI=",
    "name": "ticket_outcome",
    "annotator_kind": "HUMAN",
    "span_id": "b7ad6b7169203331",
    "identifier": "desk",
    "result": {"label": "resolved", "score": 1.0},
    "metadata": {},
    "created_at": "2026-09-22T09:00:00Z",
    "updated_at": "2026-09-22T09:00:00Z",
    "source": "API",
    "user_id": None,
}

WEBHOOK: dict[str, Any] = {
    "headers": {"webhook-id": "msg_2", "webhook-timestamp": "1790259200", "webhook-signature": "v1,abc="},
    "body": {
        "id": "evt-77",
        "type": "ticket.status_changed",
        "time": "2026-09-24T09:00:00Z",
        "ticket": {"id": "T-41", "external_id": "ask-41"},
        "previous": "closed",
        "current": "open",
        "sequence": {"id": "seq-5", "position": 2},
    },
}

PLAIN: dict[str, Any] = {
    "event_id": "e1",
    "trace_id": "t1",
    "name": "refund_correct",
    "value": 1,
    "source_kind": "program",
    "source": "checker",
    "scorer_version": "1",
    "event_time": "2026-11-22T09:00:00Z",
}

MLFLOW: list[dict[str, Any]] = [
    {
        "assessment_id": "a-1",
        "assessment_name": "ticket_outcome",
        "trace_id": "tr-0af7651916cd43dd8448eb211c80319c",
        "source": {"source_type": "HUMAN", "source_id": "desk"},
        "feedback": {"value": 1.0},
        "create_time": "2026-09-22T09:00:00Z",
        "last_update_time": "2026-09-24T09:00:00Z",
        "valid": False,
    },
    {
        "assessment_id": "a-2",
        "assessment_name": "ticket_outcome",
        "trace_id": "tr-0af7651916cd43dd8448eb211c80319c",
        "source": {"source_type": "HUMAN", "source_id": "desk"},
        "feedback": {"value": 0.0},
        "create_time": "2026-09-24T09:00:00Z",
        "last_update_time": "2026-09-24T09:00:00Z",
        "overrides": "a-1",
        "valid": True,
    },
]
