"""Settings of webhooks."""

from __future__ import annotations

import pytest

from ingest.webhooks import ReceiverSettings, WebhookEvent

GOOD = {"name": "ok", "source": "desk", "value": "body.data.rating", "trace_id": "body.data.trace"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "rating"}, "expected a path"),
        ({"value": "body."}, "expected a path"),
        ({"trace_id": "query.trace"}, "expected a path"),
        ({"event_id": "id"}, "expected a path"),
        ({"event_time": "headers.webhook-timestamp"}, "expected a path in the body"),
        ({"value": None}, "neither value nor label"),
        ({"trace_id": None}, "expected the path of one"),
        ({"source_kind": "oracle"}, "Input should be"),
        ({"name": ""}, "at least 1 character"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(change, message):
    """The time of an attempt is none of an event: a second attempt would be a later event."""
    assert WebhookEvent(**GOOD).event_time == "body.timestamp"
    with pytest.raises(ValueError, match=message):
        WebhookEvent(**(GOOD | change))


def test_an_endpoint_that_is_not_asked_for_listens_to_this_machine_only():
    """A proxy that speaks TLS stands before it."""
    assert ReceiverSettings().host == "127.0.0.1"
