"""Deliveries that come in: verified, kept, then acknowledged."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest
from standardwebhooks.webhooks import Webhook

from ingest.land import land_outcomes
from ingest.receiver import Receiver, secrets_from
from ingest.settings import LogSettings
from ingest.spool import Spool
from ingest.webhooks import WebhookEvent
from ingest.words import WordSettings
from schemas.errors import SettingsError
from tests.ingest.hand_made import NOW as INGESTED
from tests.ingest.score_examples import WEBHOOK

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 24).decode()
BODY = json.dumps(WEBHOOK["body"], indent=1).encode()


def now() -> datetime:
    """The library compares with the clock of the machine."""
    return datetime.now(UTC)


def signed(body: bytes = BODY, *, secret: str = SECRET, age: timedelta = timedelta(0)) -> dict[str, str]:
    """The headers that a sender would write."""
    time = now() - age
    signature = Webhook(secret).sign("msg_2", time, body.decode())
    stamp = str(int(time.timestamp()))
    return {"webhook-id": "msg_2", "webhook-timestamp": stamp, "webhook-signature": signature}


@pytest.fixture
def receiver(tmp_path) -> Receiver:
    """One secret, an empty spool."""
    return Receiver([SECRET], Spool(tmp_path / "spool"))


def kept(tmp_path) -> list[bytes]:
    """The lines of the spool."""
    return [line for file in sorted((tmp_path / "spool").iterdir()) for line in file.read_bytes().splitlines()]


def test_a_signed_delivery_is_kept_before_it_is_acknowledged(receiver, tmp_path):
    """As often as it comes: the sender cannot know."""
    for _ in range(2):
        assert receiver.take(signed(), BODY, now=now()) == HTTPStatus.NO_CONTENT
    assert [json.loads(line)["body"]["id"] for line in kept(tmp_path)] == ["evt-77"] * 2


@pytest.mark.parametrize(
    "forge",
    [
        dict,
        lambda: signed(secret=OTHER),
        lambda: signed(BODY + b" "),
        lambda: signed(age=timedelta(minutes=6)),
        lambda: signed(age=-timedelta(minutes=6)),
        lambda: signed() | {"webhook-id": "msg_3"},
        lambda: signed() | {"webhook-signature": "v1"},
        lambda: signed() | {"webhook-signature": "v1,*"},
        lambda: signed() | {"webhook-signature": "v1,é"},
        lambda: signed() | {"webhook-timestamp": "soon"},
        lambda: signed() | {"webhook-timestamp": "nan"},
        lambda: signed() | {"webhook-timestamp": "1e400"},
    ],
)
def test_what_is_not_signed_now_and_by_the_secret_is_refused(receiver, tmp_path, forge):
    """Another secret or body, a replay from beyond the tolerance, headers of anybody's making."""
    assert receiver.take(forge(), BODY, now=now()) == HTTPStatus.UNAUTHORIZED
    assert kept(tmp_path) == []


def test_the_signature_is_of_the_raw_bytes(receiver):
    """The same JSON in other bytes is another body, and bytes that are no text are none."""
    compact = json.dumps(WEBHOOK["body"]).encode()
    assert receiver.take(signed(), compact, now=now()) == HTTPStatus.UNAUTHORIZED
    assert receiver.take(signed(), b"\xff", now=now()) == HTTPStatus.UNAUTHORIZED
    assert receiver.take(signed(b"not JSON"), b"not JSON", now=now()) == HTTPStatus.BAD_REQUEST


def test_while_a_secret_is_replaced_both_are_taken(tmp_path):
    """The sender changes over when it likes."""
    both = Receiver([SECRET, OTHER], Spool(tmp_path / "spool"))
    for secret in (SECRET, OTHER):
        assert both.take(signed(secret=secret), BODY, now=now()) == HTTPStatus.NO_CONTENT


def test_a_disk_that_does_not_take_it_makes_the_sender_try_again(receiver, tmp_path):
    """Nothing is acknowledged that was not kept."""
    (tmp_path / "spool").rmdir()
    assert receiver.take(signed(), BODY, now=now()) == HTTPStatus.SERVICE_UNAVAILABLE


def test_secrets_come_from_the_environment_and_are_never_shown():
    """Not even one that cannot be used."""
    assert secrets_from({"S": f" {SECRET} {OTHER} "}, "S") == [SECRET, OTHER]
    with pytest.raises(SettingsError, match="S is not set"):
        secrets_from({"S": " "}, "S")
    for bad in ("whsec_", "whsec_hunter2é"):
        with pytest.raises(SettingsError, match="no base64") as caught:
            Receiver([bad], None)  # type: ignore[arg-type]  # refused before the spool is looked at
        assert "hunter2" not in str(caught.value)


def test_the_spool_is_read_like_any_outcome_file(receiver, lake, tmp_path):
    """A delivery that came twice is one event, whatever landed in between."""
    event = WebhookEvent(
        name="ticket_outcome",
        source="desk",
        label="body.current",
        business_key="body.ticket.external_id",
        event_id="body.id",
        event_time="body.time",
    )
    settings = LogSettings(
        webhooks={"ticket.status_changed": event}, words=WordSettings(labels={"ticket_outcome": {"open": 0}})
    )
    counts = []
    for body in (BODY, BODY, b'{"type":"ticket.created"}'):
        assert receiver.take(signed(body), body, now=now()) == HTTPStatus.NO_CONTENT
        report = land_outcomes(lake, [str(tmp_path / "spool")], settings=settings, now=INGESTED)
        counts.append((report.num_landed, report.num_duplicates, report.num_blank))
    assert counts == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    (row,) = lake.read("outcomes").to_pylist()
    assert (row["event_id"], row["business_key"], row["value"]) == ("evt-77", "ask-41", 0.0)
