"""What the messages of a request say: the ask, and how two chains of calls of one trace belong together."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ingest.formats.chat import text_of

SHORTEST_SUMMARY = 16
"""Characters from which on a reply that stands in a later prompt counts as its summary. Convention, untested."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Messages:
    """The texts of one request, by who speaks."""

    system: str
    """What the system or developer says before anybody else."""
    given: str
    """Everything that the model itself did not say."""
    ask: str | None
    """The last user text: in a trace's first call, what was asked; earlier turns may be examples."""

    @classmethod
    def read(cls, messages_json: str | None) -> Messages:
        """The texts of a request's messages; of anything that is no list of messages, nothing."""
        try:
            messages = json.loads(messages_json) if messages_json is not None else []
        except (ValueError, RecursionError):  # a number of thousands of digits, or nesting beyond any reader
            messages = []
        told = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
        system: list[str] = []
        given: list[str] = []
        ask = None
        is_opening = True
        for message in told:
            role, text = message.get("role"), _clean(message.get("content"))
            is_opening = is_opening and role in ("system", "developer")
            if is_opening:
                system.append(text)
            if role != "assistant":
                given.append(text)
            if role == "user":
                ask = text
        return cls("\n".join(system), "\n".join(given), ask)


def _clean(content: Any) -> str:
    """The text of a content, fit to be written as UTF-8."""
    text = text_of(content) if content is None or isinstance(content, str | list) else None
    return text if text and text.isascii() else _SURROGATE.sub("\ufffd", text or "")
