"""What does not reach a table."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from ingest.redact import hash_user, shown_bytes, user_salt


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
        (b"\xff\x00ab", "\\xff\x00ab"),
        (b"x" * 300, "x" * 200),
    ],
)
def test_the_head_of_a_line_hides_its_user(raw, shown):
    """Cut or not; bytes that are no text are escaped."""
    assert shown_bytes(raw) == shown
