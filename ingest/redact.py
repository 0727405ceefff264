"""What is taken out of texts before they are written, and how a user is named without being known."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ingest.call import Call
from ingest.detectors import CARD, EMAIL, Detector, find_emails, own_detector, phone_detector
from ingest.findings import Remover
from ingest.line import HEAD_BYTES
from ingest.outcome import Outcome
from ingest.patterns import search
from schemas.settings import Settings

BuiltIn = Literal["email", "phone", "card", "secret"]
USER = "user"
"""What stands for the value of a field that names a user or holds a key, in the head of a line."""

WINDOW_BYTES = 8192
"""Bytes of a line that are searched so that the first of them can be shown. Convention, untested."""

_LONGEST_PART = 400
"""Characters before the end of the window that may begin what only the bytes behind it would show: an address has
320 at most. Convention, untested."""


def _compiles(pattern: str) -> str:
    if search(pattern, "") is not None:
        raise ValueError(
            f"{pattern!r} matches the empty text, so it is everywhere; expected one that needs a character"
        )
    return pattern


class RedactSettings(Settings):
    """What is taken out of every text before it is written: the [logs.redact] group of the settings file."""

    detectors: tuple[BuiltIn, ...] = ()
    """What is looked for: email, phone, card, secret. None unless stated: what is taken out cannot be had back, and
    a model that learns from the texts learns the brackets. Convention, untested."""

    phone_region: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")] | None = None
    """Two letters (ISO 3166) of the region whose phone numbers are also found as one dials them there; without it
    only numbers with a plus and a country code. Convention, untested: none unless stated."""

    patterns: dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,30}$")], Annotated[str, AfterValidator(_compiles)]
    ] = Field(default_factory=dict)
    """Own regular expressions by the name of what they find, such as employee = 'E-[0-9]{6}', in the dialect of the
    package regex. One that needs more than two seconds for a text takes all of that text out. Convention, untested:
    none unless stated."""

    redacted_ids: Literal["keep", "drop"] = "keep"
    """Whether a call in whose texts something was found keeps its token ids, which spell the same text. Without them
    it is quarantined. Convention, untested."""

    @model_validator(mode="after")
    def _named_once(self) -> RedactSettings:
        taken = sorted({*self.patterns} & {"email", "phone", "card", "secret", USER})
        if taken:
            raise ValueError(f"pattern {taken[0]!r} has the name of a built-in kind; expected a name of its own")
        return self

    @model_validator(mode="after")
    def _nothing_idle(self) -> RedactSettings:
        if self.phone_region is not None and "phone" not in self.detectors:
            raise ValueError(
                f"phone_region is {self.phone_region!r} without the detector phone; expected it among detectors"
            )
        if self.redacted_ids == "drop" and not self.detectors and not self.patterns:
            raise ValueError("redacted_ids is 'drop' and nothing is looked for; expected detectors or patterns")
        return self

    @model_validator(mode="after")
    def _known_region(self) -> RedactSettings:
        if self.phone_region is not None:
            from phonenumbers import SUPPORTED_REGIONS

            if self.phone_region not in SUPPORTED_REGIONS:
                raise ValueError(
                    f"phone_region {self.phone_region!r} is no region with phone numbers, such as DE or US"
                )
        return self


def _detectors(settings: RedactSettings, region: str | None) -> list[Detector]:
    """The chosen detectors, in the order of the settings."""
    made: list[Detector] = []
    for name in dict.fromkeys(settings.detectors):
        if name == "secret":
            from ingest.secret_shapes import secret_detector

            made.append(secret_detector())
        else:
            made.append({"email": EMAIL, "card": CARD}.get(name) or phone_detector(region))
    return made + [own_detector(kind, pattern) for kind, pattern in settings.patterns.items()]


class Redactor:
    """Takes out of texts what the settings name; without detectors each text is given back as it is.

    Redacting twice is redacting once, and the same text always becomes the same text.
    """

    def __init__(self, settings: RedactSettings, salt: bytes = b"") -> None:
        detectors = _detectors(settings, settings.phone_region)
        placeholders = ("email", "phone", "card", "secret", USER, *settings.patterns)
        self.is_active = bool(detectors)
        self._drops_ids = settings.redacted_ids == "drop"
        self._salt = salt
        self._remove = Remover(detectors, placeholders)
        # Long numbers are common as ids, and one in ten has a check digit that fits by chance.
        plain = [detector for detector in _detectors(settings, None) if detector.kind != "card"]
        self._remove_from_id = Remover(plain, placeholders)
        cut = Detector("email", EMAIL.may_find, lambda text: find_emails(text, is_cut=True))
        self._remove_from_cut = Remover([cut if each is EMAIL else each for each in detectors], placeholders)
        self._counts: Counter[str] = Counter()

    def take_counts(self) -> dict[str, int]:
        """How many findings of each kind were taken out since the last asking, sorted by kind."""
        counts, self._counts = self._counts, Counter()
        return dict(sorted(counts.items()))

    def text(self, value: str | None) -> str | None:
        """The text without what was found; None stays None."""
        return value if value is None or not self.is_active else self._remove(value, self._counts)

    def json_text(self, document: str | None, *, numbers: Literal["search", "keep"] = "search") -> str | None:
        """A JSON document with its strings and keys redacted: a valid one of the same structure.

        A whole number in which something is found, such as a card number, becomes a string. Keys that would be
        equal afterwards are numbered. What is no JSON is redacted as text.
        """
        if document is None or not self.is_active or not self._remove.may_find(document):
            return document
        try:
            msgspec.json.decode(document, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return self._remove(document, self._counts)
        num_keys: Counter[str] = Counter()

        def redacted(match: re.Match[str]) -> str:
            token, inner, colon = match.group(0, 1, 2)
            if inner is None:
                cleaned = token if numbers == "keep" else self._remove(token, self._counts)
                return token if cleaned == token else f'"{cleaned}"'
            cleaned = self._remove(inner, self._counts)
            if cleaned is inner:
                return token
            if colon is None:
                return f'"{cleaned}"'
            num_keys[cleaned] += 1
            number = f" {num_keys[cleaned]}" if num_keys[cleaned] > 1 else ""
            return f'"{cleaned}{number}"{colon}'

        cleaned = _TOKEN.sub(redacted, document)
        return document if cleaned == document else cleaned

    def identifier(self, value: str | None) -> str | None:
        """A name by which rows are joined: where something was found, a keyed hash keeps it apart from others.

        Calls and outcomes that named the same thing still do, under the same salt. Card numbers are not looked for.
        """
        if value is None or not self.is_active:
            return value
        cleaned = self._remove_from_id(value, self._counts)
        return value if cleaned is value else f"{cleaned}#{hash_user(self._salt, value)}"

    def call(self, call: Call) -> tuple[str, ...]:
        """Redact the texts and ids of a call in place, but for `sampling` and `user`; returns what to note of it.

        Its identity, its trace id and its meaning must have been found before: they depend on what was logged.
        """
        if not self.is_active:
            return ()
        before = self._counts.total()
        call.messages_json = self.json_text(call.messages_json)
        call.reply_text = self.text(call.reply_text)
        drops_ids = self._drops_ids and self._counts.total() > before
        if drops_ids:
            call.prompt_token_ids = call.token_ids = call.token_logprobs = None
            call.top_token_ids = call.top_token_logprobs = None
            call.weight_spans, call.masked_positions = (), ()
        call.stop_reason = self.text(call.stop_reason)
        call.finish_reason = self.text(call.finish_reason)
        for name in ("model", "trace_id", "response_id", "ask_id", "session_id", "span_id", "workload", "deployment"):
            value = getattr(call, name)
            if value:
                setattr(call, name, self.identifier(value))
        return ("redacted_ids",) if drops_ids else ()

    def outcome(self, outcome: Outcome) -> Outcome:
        """The score event with its texts and ids redacted; its identity must have been found before."""
        if not self.is_active:
            return outcome
        changed = {name: self.identifier(getattr(outcome, name)) for name in _OUTCOME_IDS}
        changed |= {name: self.text(getattr(outcome, name)) for name in ("name", "label", "scorer_version")}
        return replace(outcome, **changed)  # type: ignore[arg-type]  # None only where None was

    def raw_head(self, raw: bytes) -> str:
        """The first bytes of a line as text for people, fit to be written.

        Undecodable bytes are escaped and values of user fields hidden, with or without detectors. With them a longer
        window is searched than is shown, so nothing is cut in the middle; where the bytes themselves end, the last
        word and the digits before it go, since they may be the beginning of something.
        """
        if not self.is_active:
            return shown_bytes(raw)
        # Bytes of UTF-16 are letters with NULs between them.
        window = raw[:WINDOW_BYTES].replace(b"\0", b"").decode("utf-8", errors="backslashreplace")
        cleaned = self._remove_from_cut(_USER_FIELD.sub(_HIDDEN, window), self._counts)
        if len(raw) > WINDOW_BYTES:
            cleaned = cleaned[: max(len(cleaned) - _LONGEST_PART, 0)]
        return _without_last_word(cleaned)[:HEAD_BYTES]

    def message(self, value: str) -> str:
        """The message of a reject, which may quote the beginning of a value."""
        if not self.is_active:
            return value
        cleaned = self._remove_from_cut(value, self._counts)
        return _LONG_QUOTE.sub(lambda match: match[1] + _without_last_word(match[2]) + match[1], cleaned)


def _without_last_word(text: str) -> str:
    """The text without its last word and the digits before it."""
    return text[:-_LONGEST_PART] + _LAST_WORD.sub("", text[-_LONGEST_PART:])


_TOKEN = re.compile(r'"((?:[^"\\]++|\\.)*+)"(\s*:)?|(?<![\w.+-])-?\d{4,}+(?![.\deE])', re.DOTALL)
_LAST_WORD = re.compile(r"""(?:[+(]?\d[\d\s().+\-]*)?(?<![^\s"'])[^\s"'\]]*\Z""")
_LONG_QUOTE = re.compile(r"""(['"])((?:(?!\1).){40,})\1""")
_OUTCOME_IDS = ("event_id", "trace_id", "call_id", "response_id", "business_key", "session_id", "source")
_USER_FIELD = re.compile(
    r"""
    ((?<!\\)\\*+"(?:(?:end|customer|client)[_-]?)?(?:user(?:[_-]?(?:id|name|email))?|e?[_-]?mail(?:[_-]?address)?|phone
    (?:[_-]?number)?|safety[_-]?identifier|api[_-]?key|(?:access|refresh|auth|bearer)[_-]?token|authorization
    |password|secret|x-api-key)\\*"\s*:\s*)
    (?:"(?:[^"\\]|\\.)*"?|\\+"(?:[^"\\])*(?:\\+")?|[0-9][^\s,}\]]*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HIDDEN = rf'\1"[{USER}]"'


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
    return (
        None if user is None else hmac.new(salt, user.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:32]
    )


def shown_bytes(raw: bytes) -> str:
    """The first bytes of a line as text for people: undecodable bytes escaped, values of user fields hidden."""
    return _USER_FIELD.sub(_HIDDEN, raw[:HEAD_BYTES].decode("utf-8", errors="backslashreplace"))
