"""Scores in the records of calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.call import Call
from ingest.formats.detect import RecordReader, all_formats
from ingest.outcome import Outcome
from ingest.words import WordSettings
from schemas.errors import LineError
from tests.ingest.tracing_made import CHAT, attributes, otlp, payload, read, span

LABELLED = {
    "id": "sc-1",
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "name": "ticket_outcome",
    "value": 0,
    "stringValue": "resolved",
    "dataType": "CATEGORICAL",
    "source": "API",
    "timestamp": "2026-09-22T09:00:00Z",
}


def evaluated(**values: Any) -> dict[str, Any]:
    """A span of a model call with an evaluation on it."""
    told = attributes({"gen_ai.evaluation.name": "ticket_outcome", **values})
    event = {"name": "gen_ai.evaluation.result", "timeUnixNano": "1790086400000000000", "attributes": told}
    return otlp(span(CHAT, events=[event]))


@pytest.mark.parametrize(
    "document",
    [
        {**payload("langfuse_trace.export"), "scores": [LABELLED]},
        evaluated(**{"gen_ai.evaluation.score.label": "resolved"}),
    ],
)
def test_a_score_that_cannot_be_used_takes_no_call_away(document: dict[str, Any]):
    """A label without a number is no score; the call beside it lands, and says so."""
    (call,) = read(document)
    assert isinstance(call, Call)
    assert "score_unusable" in call.notes


def test_a_score_that_cannot_be_used_is_a_reject_where_no_call_is():
    """As it would be in a line of its own."""
    with pytest.raises(LineError) as caught:
        read({**payload("langfuse_trace.export"), "observations": [], "scores": [LABELLED]})
    assert caught.value.reason == "bad_value"


def test_scores_that_can_be_used_stand_beside_one_that_cannot():
    """Each is read for itself."""
    usable = {**LABELLED, "id": "sc-2", "dataType": "NUMERIC", "value": 1}
    call, outcome = read({**payload("langfuse_trace.export"), "scores": [LABELLED, usable]})
    assert isinstance(call, Call)
    assert isinstance(outcome, Outcome)
    assert (outcome.value, "score_unusable" in call.notes) == (1.0, True)


def test_a_label_that_the_settings_name_is_its_number_in_an_export_too():
    """The settings help to read the scores within exports as they do those in lines of their own."""
    words = WordSettings(labels={"ticket_outcome": {"resolved": 1.0}})
    reader = RecordReader(formats=all_formats(words, {}))
    for document in (
        {**payload("langfuse_trace.export"), "scores": [LABELLED]},
        evaluated(**{"gen_ai.evaluation.score.label": "resolved"}),
    ):
        call, outcome = reader(json.dumps(document).encode())
        assert "score_unusable" not in call.notes
        assert (outcome.value, outcome.label) == (1.0, "resolved")
