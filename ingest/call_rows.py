"""Log lines as rows of `calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ingest.call import Call, identity
from ingest.columns import list_column
from ingest.faults import judge
from ingest.formats.detect import CallReader
from ingest.meaning import Deployment, Interpreter, Meaning
from ingest.redact import hash_user
from schemas.tables import table

if TYPE_CHECKING:
    from ingest.land import Placed
    from ingest.lines import Line

_SCHEMA = table("calls").schema
_PACKED = {"prompt_token_ids": pa.int32(), "token_ids": pa.int32(), "token_logprobs": pa.float32()}
_AS_LOGGED = (
    "trace_id",
    "call_index",
    "response_id",
    "ask_id",
    "session_id",
    "workload",
    "model",
    "engine_version",
    "log_format",
    "streamed",
    "choice_index",
    "num_choices",
    "top_token_ids",
    "top_token_logprobs",
    "finish_reason",
    "stop_reason",
    "num_prompt_tokens",
    "num_completion_tokens",
    "messages_json",
    "reply_text",
    "started_at",
    "ended_at",
)
_AS_MEANT = ("deployment", "policy_version", "engine", "logprob_kind", "temperature", "top_p", "top_k")


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call, what its numbers mean, what is wrong with it and its identity."""

    item_id: str
    call: Call
    meaning: Meaning
    codes: tuple[str, ...]


class CallSource:
    """Reads lines of serving logs, whatever their format."""

    content_kind = "calls"
    known_query = "ingest/known_calls"

    def __init__(self, deployments: Mapping[str, Deployment], salt: bytes = b"") -> None:
        self._interpret = Interpreter(deployments)
        self._salt = salt
        self._read = CallReader()

    def begin(self, head: bytes) -> None:  # noqa: ARG002 - a log has no header
        """Forget the format of the file before."""
        self._read = CallReader()

    def read(self, line: Line) -> tuple[ReadCall, ...]:
        """The calls of one line, one a choice."""
        return tuple(self._with_meaning(call) for call in self._read(line.text))

    def _with_meaning(self, call: Call) -> ReadCall:
        meaning = self._interpret(call)
        return ReadCall(identity(call), call, meaning, judge(call, meaning))

    def rows(self, landed: Sequence[Placed], now: datetime) -> pa.Table:
        """The calls as columns of `calls`."""
        items: list[ReadCall] = [placed.item for placed in landed]
        columns: dict[str, Any] = {
            name: list_column([getattr(item.call, name) for item in items], kind) for name, kind in _PACKED.items()
        }
        columns |= {name: [getattr(item.call, name) for item in items] for name in _AS_LOGGED}
        columns |= {name: [getattr(item.meaning, name) for item in items] for name in _AS_MEANT}
        columns["call_id"] = [item.item_id for item in items]
        columns["user_hash"] = [hash_user(self._salt, item.call.user) for item in items]
        columns["sampling_json"] = [_json(item.call.sampling) for item in items]
        columns["notes"] = [item.codes for item in items]
        columns["uri"] = [placed.uri for placed in landed]
        columns["byte_offset"] = [placed.byte_offset for placed in landed]
        columns["line_sha256"] = [placed.line_sha256 for placed in landed]
        columns["ingested_at"] = [now] * len(items)
        return pa.table({name: pa.array(values, _SCHEMA.field(name).type) for name, values in columns.items()})


def _json(sampling: Mapping[str, Any]) -> str:
    return msgspec.json.encode(sampling, order="sorted").decode()
