"""What does not reach a table."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ingest.call import Call, pack_ids
from ingest.outcome import Outcome
from ingest.redact import Redactor, RedactSettings, hash_user, shown_bytes, user_salt

ALL = ("email", "phone", "card", "secret")
KEY = "ghp_" + "a1B2c3" * 6
PLANTED = ("alice@example.com", "+49 30 901820", "4111 1111 1111 1111", KEY)


@pytest.fixture
def redactor():
    """All detectors and an own pattern."""
    return Redactor(RedactSettings(detectors=ALL, patterns={"employee": r"E-\d{6}"}), b"salt")


def test_each_kind_is_replaced_and_counted(redactor):
    """One of each, and the counts begin anew once they are taken."""
    text = f"{PLANTED[0]}, {PLANTED[1]}; {PLANTED[2]} ({KEY}) E-123456."
    assert redactor.text(text) == "[email], [phone]; [card] ([secret]) [employee]."
    assert redactor.take_counts() == {"card": 1, "email": 1, "employee": 1, "phone": 1, "secret": 1}
    assert redactor.take_counts() == {}


def test_without_detectors_all_stays():
    """The same objects, so it costs nothing."""
    redactor = Redactor(RedactSettings())
    text, raw = " ".join(PLANTED), b"hello alice@example.com"
    assert redactor.text(text) is text
    assert redactor.json_text(text) is text
    assert redactor.identifier(text) is text
    assert redactor.message(text) is text
    assert redactor.raw_head(raw) == raw.decode()
    assert redactor.call(Call(model="m", log_format="f", reply_text=text)) == ()


def test_only_what_is_asked_for_is_taken_out():
    """One detector knows nothing of the others."""
    assert Redactor(RedactSettings(detectors=("card",))).text("a@b.co 4111111111111111") == "a@b.co [card]"


@pytest.mark.parametrize(
    ("document", "cleaned"),
    [
        ('[{"role":"user","content":"I am a@b.co"}]', '[{"role":"user","content":"I am [email]"}]'),
        (r'{"c":"a\u0040b.co \/ x"}', r'{"c":"[email] \/ x"}'),
        ('{"a@b.co":1,"n":1.50e3,"c@d.co":2}', '{"[email]":1,"n":1.50e3,"[email] 2":2}'),
        ('{"n":4111111111111111,"m":[4111111111111112,-0]}', '{"n":"[card]","m":[4111111111111112,-0]}'),
        (r'{"arguments":"{\"to\":\"a\\u0040b.co\",\"n\":1}"}', r'{"arguments":"{\"to\":\"[email]\",\"n\":1}"}'),
        (r'{"c":"\na@b.co\\"}', r'{"c":"\n[email]\\"}'),
        ('{"c":"4111 1111","d":"1111 1111"}', '{"c":"4111 1111","d":"1111 1111"}'),
        ("a@b.co is no JSON", "[email] is no JSON"),
    ],
)
def test_a_document_stays_one(redactor, document, cleaned):
    """Same structure, same spelling of numbers, escapes whole; what is no JSON is text."""
    assert redactor.json_text(document) == cleaned
    assert redactor.json_text(cleaned) is cleaned


def test_sampling_keeps_its_numbers(redactor):
    """A seed of 16 digits may have a check digit that fits."""
    document = '{"seed":4111111111111111,"stop":["a@b.co"]}'
    assert redactor.json_text(document, numbers="keep") == '{"seed":4111111111111111,"stop":["[email]"]}'


def test_an_id_stays_one_of_its_own(redactor):
    """Two people are two ids, the same one everywhere, and a number is no card."""
    alice, bob = redactor.identifier("a@b.co/1"), redactor.identifier("b@b.co/1")
    assert alice == "[email]/1#" + hmac.new(b"salt", b"a@b.co/1", hashlib.sha256).hexdigest()[:32]
    assert alice != bob
    assert redactor.identifier(alice) is alice
    assert redactor.identifier("4111111111111111") == "4111111111111111"


def call_with(text):
    """A call that holds the text wherever it can."""
    return Call(
        model="m",
        log_format="f",
        trace_id=text,
        session_id=text,
        messages_json=json.dumps([{"role": "user", "content": text}]),
        reply_text=text,
        stop_reason=text,
        token_ids=pack_ids([1, 2]),
        prompt_token_ids=pack_ids([3]),
        top_token_ids=[[1], [2]],
    )


def test_a_calls_texts_hold_nothing(redactor):
    """Its ids stay, and spell the text still."""
    call = call_with("a@b.co")
    assert redactor.call(call) == ()
    assert "a@b.co" not in repr(call)
    assert call.reply_text == call.stop_reason == "[email]"
    assert call.token_ids == pack_ids([1, 2])


def test_the_ids_can_go_with_the_text():
    """Only of a call in which something was found; a word in its id is none."""
    redactor = Redactor(RedactSettings(detectors=ALL, redacted_ids="drop"))
    call = call_with("a@b.co")
    assert redactor.call(call) == ("redacted_ids",)
    assert call.token_ids is call.prompt_token_ids is call.top_token_ids is None
    clean = call_with("hello")
    assert redactor.call(clean) == ()
    assert clean.token_ids == pack_ids([1, 2])


def test_an_outcome_joins_the_call_that_it_scores(redactor):
    """Both name the trace by the same hash; the rater is nobody known, but somebody."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    texts = dict.fromkeys(("event_id", "call_id", "response_id", "business_key", "scorer_version"))
    outcome = Outcome(
        **texts,
        trace_id="a@b.co",
        name="ok",
        value=1.0,
        source_kind="human",
        source="a@b.co",
        event_time=now,
        observed_time=now,
    )
    call = call_with("a@b.co")
    redactor.call(call)
    cleaned = redactor.outcome(outcome)
    assert cleaned.trace_id == call.trace_id
    assert "a@b.co" not in repr(cleaned)
    assert (cleaned.name, cleaned.value) == ("ok", 1.0)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"upstream of a@b.co died: 502", "upstream of [email] died: "),
        (b'{"msg":"write to alice@exam', '{"msg":"write to [email]'),
        (b"pay with 4111 1111 11", "pay with "),
        (b'{"k":"ghp_a1B2c3a1B2', '{"k":"'),
        (b'{"a":"\xff alice@b.co"', '{"a":"\\xff [email]"'),
        ('{"a":"alice@b.co"'.encode("utf-16-le"), '{"a":"[email]"'),
        (b'{"endUserId": 12345, "api-key":"abc", "x": "y"', '{"endUserId": "[user]", "api-key":"[user]", "x": "y"'),
    ],
)
def test_the_head_of_a_broken_line_holds_nothing(redactor, raw, shown):
    """Nor what may be the beginning of something, where the bytes end."""
    assert redactor.raw_head(raw) == shown


@given(st.sampled_from(PLANTED), st.integers(150, 8300), st.integers(0, 60))
def test_no_cut_shows_a_part_of_what_was_planted(planted, place, keep):
    """Wherever the head, the window or the line ends, four characters of it in a row are not there."""
    redactor = Redactor(RedactSettings(detectors=ALL))
    text = ("lorem " * 2000)[:place].rstrip() + ' "' + planted + '" and more' * 20
    for raw in (text.encode(), text.encode()[: place + keep]):
        shown = redactor.raw_head(raw)
        assert len(shown) <= 200
        assert not any(planted[at : at + 4] in shown for at in range(len(planted) - 3))


def test_a_message_shows_no_part_of_a_value(redactor):
    """It may quote the first 60 characters of one."""
    quoted = "x" * 30 + " to 4111 1111 1111 11"
    assert redactor.message(f"ts is '{quoted}'; expected a time") == f"ts is '{'x' * 30} to '; expected a time"
    assert redactor.message("ts is 'alice@exa'; expected 60") == "ts is '[email]'; expected 60"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"detectors": ["mail"]}, "'email', 'phone', 'card' or 'secret'"),
        ({"patterns": {"x": "("}}, "no regular expression"),
        ({"patterns": {"x": "a*"}}, "matches the empty text"),
        ({"patterns": {"X y": "a"}}, "pattern"),
        ({"patterns": {"email": "a"}}, "name of a built-in kind"),
        ({"phone_region": "XX", "detectors": ["phone"]}, "no region with phone numbers"),
        ({"phone_region": "DE"}, "without the detector phone"),
        ({"redacted_ids": "drop"}, "nothing is looked for"),
        ({"phone_region": "Germany"}, "pattern"),
    ],
)
def test_a_bad_setting_is_refused(settings, message):
    """With what is wrong."""
    with pytest.raises(ValidationError, match=message):
        RedactSettings.model_validate(settings)


def test_a_user_is_a_keyed_hash():
    """HMAC-SHA-256, 128 bits; nobody stays nobody."""
    expected = hmac.new(b"salt", b"me@example.com", hashlib.sha256).hexdigest()[:32]
    assert hash_user(b"salt", "me@example.com") == expected
    assert hash_user(b"salt", None) is None


def test_the_lakes_salt_is_made_once(tmp_path, monkeypatch):
    """64 hex digits that stay; no draft is left beside it."""
    monkeypatch.delenv("SALT", raising=False)
    salt = user_salt("SALT", tmp_path)
    assert len(salt) == 64
    assert user_salt("SALT", tmp_path) == salt
    assert [file.name for file in tmp_path.iterdir()] == ["user_salt"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"user":"a@b.c","x":1}', '{"user":"[user]","x":1}'),
        (b'{"user_id" : "a\\"b","x":1}', '{"user_id" : "[user]","x":1}'),
        (b'{"user":"a@b.', '{"user":"[user]"'),
        (
            b'{"safety_identifier":"u1","end_user":7,"Email":"x"}',
            '{"safety_identifier":"[user]","end_user":"[user]","Email":"[user]"}',
        ),
        (b'{"body":"{\\"user\\":\\"u1\\",\\"x\\":1}"}', '{"body":"{\\"user\\":"[user]",\\"x\\":1}"}'),
        (b'{"user":{"id":1},"users":"x"}', '{"user":{"id":1},"users":"x"}'),
        (b"\xff\x00ab", "\\xff\x00ab"),
        (b"x" * 300, "x" * 200),
    ],
)
def test_the_head_of_a_line_hides_its_user(raw, shown):
    """Cut or not; bytes that are no text are escaped."""
    assert shown_bytes(raw) == shown
