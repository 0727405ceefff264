"""What is hidden in the bytes that a reject shows, and how a user is named without being known."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from ingest.lines import HEAD_BYTES

_USER_FIELD = re.compile(r'("user(?:_id|_name|name)?"\s*:\s*)"(?:[^"\\]|\\.)*"?')
_HIDDEN = r'\1"[user]"'


def user_salt(variable: str, lake_root: Path) -> bytes:
    """The salt of user hashes: the environment variable, else a random one that the lake keeps in `user_salt`.

    The file is private to its owner and made once: with another salt the same user would be somebody else.
    """
    stated = os.environ.get(variable)
    if stated:
        return stated.encode()
    path = lake_root / "user_salt"
    if not path.exists():
        # Written whole under another name, then linked: a process that lost the race reads the winner's salt.
        draft = lake_root / f"user_salt.{secrets.token_hex(8)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_bytes()


def hash_user(salt: bytes, user: str | None) -> str | None:
    """HMAC-SHA-256 of the user under the salt, 128 bits as hex; None stays None."""
    return None if user is None else hmac.new(salt, user.encode(), hashlib.sha256).hexdigest()[:32]


def shown_bytes(raw: bytes) -> str:
    """The first bytes of a line as text for people: undecodable bytes escaped, values of user fields hidden."""
    return _USER_FIELD.sub(_HIDDEN, raw[:HEAD_BYTES].decode("utf-8", errors="backslashreplace"))
