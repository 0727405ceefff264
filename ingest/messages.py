"""What the messages of a request say: the ask, and how two chains of calls of one trace belong together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingest.branches import BranchKind, LoggedCall
from ingest.formats.chat import text_of
from ingest.meant import MeantCall

SHORTEST_SUMMARY = 16
"""Characters from which on a reply that stands in a later prompt counts as its summary. Convention, untested."""

NEAREST_REPLIES = 64
"""Replies before a chain of calls that are looked for in its prompt: a summary is of what was said just before.
Convention, untested."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Messages:
    """The texts of one request, by who speaks."""

    system: str
    """What the system or developer says before anybody else."""
    given: str
    """Everything that the model itself did not say."""
    said: tuple[str, ...]
    """What the model is told to have said itself, turn by turn; of a turn of tool calls alone the first one's id."""
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
        said: list[str] = []
        ask = None
        is_opening = True
        for message in told:
            role, text = message.get("role"), _clean(message.get("content"))
            is_opening = is_opening and role in ("system", "developer")
            if is_opening:
                system.append(text)
            if role == "assistant":
                said.append(text or _called(message))
            else:
                given.append(text)
            if role == "user":
                ask = text
        return cls("\n".join(system), "\n".join(given), tuple(said), ask)


def _called(message: Mapping[str, Any]) -> str:
    """What names a turn without text: the id of its first tool call, which the reply holds too; else nothing."""
    calls = message.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else None
    return _clean(first.get("id")) if isinstance(first, dict) else ""


def _clean(content: Any) -> str:
    """The text of a content, fit to be written as UTF-8."""
    text = text_of(content) if content is None or isinstance(content, str | list) else None
    return text if text and text.isascii() else _SURROGATE.sub("\ufffd", text or "")


class Told:
    """What the requests of one trace were told, each read once."""

    def __init__(self, by_id: Mapping[str, MeantCall]) -> None:
        self._in_time = sorted(by_id.values(), key=lambda call: (call.values["started_at"], call.values["call_id"]))
        self._by_id = by_id
        self._read: dict[str, Messages] = {}
        self._summaries = [
            (call.values["started_at"], reply)
            for call in self._in_time
            if len(reply := (call.values["reply_text"] or "").strip()) >= SHORTEST_SUMMARY
        ]

    def name(self, root: LoggedCall, main: LoggedCall) -> BranchKind:
        """Tell sub-agents and compacted chains from plain forks; nothing but the name depends on it."""
        told = self._messages(root.call_id)
        earlier = [reply for started_at, reply in self._summaries if started_at < root.started_at]
        if any(reply in told.given for reply in dict.fromkeys(earlier[-NEAREST_REPLIES:])):
            return "compaction"
        return "subagent" if told.system != self._messages(main.call_id).system else "fork"

    def num_unlogged(self, ends: Sequence[LoggedCall]) -> int:
        """How many of these last calls of sequences were told of a turn that no call of the trace said.

        The prompt of a last call repeats those of the calls that it goes on from. Turns that the first call was told
        of are examples, or history from before the trace. A turn counts as said where a reply holds it, whatever else
        the reply held, such as thinking. Where a reply before the last was not logged, nothing can be told.
        """
        if len(self._in_time) == 1 or any(call.values["reply_text"] is None for call in self._in_time[:-1]):
            return 0
        replies = [call.values["reply_text"] or "" for call in self._in_time]
        known = {"", *(reply.strip() for reply in replies)}
        known.update(turn.strip() for turn in self._messages(self._in_time[0].values["call_id"]).said)
        count = 0
        for end in ends:
            told = {turn.strip() for turn in self._messages(end.call_id).said} - known
            unsaid = {turn for turn in told if not any(turn in reply for reply in replies)}
            known |= told - unsaid
            count += bool(unsaid)
        return count

    def _messages(self, call_id: str) -> Messages:
        if call_id not in self._read:
            self._read[call_id] = Messages.read(self._by_id[call_id].values["messages_json"])
        return self._read[call_id]
