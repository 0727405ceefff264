"""The attributes of a model call as MLflow writes them (`mlflow.*`), on its own spans or on exported ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.formats.dialogue import messages_json, parsed, reply_text
from ingest.formats.exported import Exported, Reply, answer_in, count_or_none, sampling_of, text_in
from ingest.formats.spans import Span, nested

TYPES = ("CHAT_MODEL", "LLM")


def exported(span: Span, log_format: str) -> Exported | None:
    """The model call that a span tells of; None of a span that is none.

    Inputs are the request and outputs the server's answer as the client saw them, so ids and log-probabilities
    survive in them. Previews of a trace are cut and are never read.
    """
    told = {name: _decoded(value) for name, value in span.attributes.items() if name.startswith("mlflow.")}
    if told.get("mlflow.spanType") not in TYPES:
        return None
    inputs, outputs = _whole(told, "mlflow.spanInputs"), _whole(told, "mlflow.spanOutputs")
    request: Mapping[str, Any] = inputs if isinstance(inputs, Mapping) else {}
    answer: Mapping[str, Any] = outputs if isinstance(outputs, Mapping) else {}
    usage = _whole(told, "mlflow.chat.tokenUsage")
    counts: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    sampling, found = sampling_of(request)
    shared = span.shared(log_format)
    return Exported(
        **{**shared, "notes": (*shared["notes"], *found)},
        model=text_in(answer, "model") or text_in(told, "mlflow.llm.model") or text_in(request, "model"),
        sampling=sampling,
        messages_json=messages_json(_asked(inputs)),
        replies=(Reply(reply_text(outputs)),),
        response_id=text_in(answer, "id"),
        num_prompt_tokens=count_or_none(counts.get("input_tokens")),
        num_completion_tokens=count_or_none(counts.get("output_tokens")),
        streamed=request.get("stream") is True,
        answer=answer_in(outputs),
    )


def _asked(inputs: Any) -> Any:
    """The messages or the prompt of a request; the request itself where it has neither."""
    if isinstance(inputs, Mapping):
        for name in ("messages", "input", "prompt"):
            if inputs.get(name):
                return inputs[name]
    return inputs


def _decoded(value: Any) -> Any:
    """An attribute, which MLflow encodes as JSON whatever it is; what is none stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _whole(told: Mapping[str, Any], name: str) -> Any:
    """A value that an exporter may have taken apart into dotted names."""
    return parsed(nested(told, name))
