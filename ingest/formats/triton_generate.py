"""TensorRT-LLM behind Triton: the flattened tensors of the `generate` extension, and `infer`'s outputs by name."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import Struct

from ingest.call import Call, pack_ids, pack_logprobs
from ingest.formats.body import Body, Wrapped, refuse_nul, text_or_none
from ingest.formats.format import Keys
from ingest.formats.generation import parameters, prompt_messages
from ingest.formats.sizes import SmallInt
from schemas.errors import LineError

NAME = "triton_generate"

PAD = -1
MAX_BEAMS = 1024
"""Beams of one response; more are a damaged line. Convention, untested."""

_LARGEST_ID = 2**31 - 1
_GREATEST = sys.float_info.max
_TENSORS = ("text_output", "output_ids", "sequence_length", "output_log_probs")


class Sampling(Struct, omit_defaults=True):
    """The sampling parameters of a request, by either model's name."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: SmallInt | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    min_length: SmallInt | None = None
    max_tokens: SmallInt | None = None
    beam_width: SmallInt | None = None
    random_seed: Any = None
    stop_words: Any = None
    bad_words: Any = None


class Request(Sampling):
    """A request to `generate`; the tensors of the model itself have other names for some parameters."""

    model: str | None = None
    text_input: str | None = None
    input_ids: Any = None
    exclude_input_in_output: bool | None = None
    runtime_top_k: SmallInt | None = None
    runtime_top_p: float | None = None


class Tensor(Struct):
    """One output of `infer`."""

    name: str
    data: Any = None


class Response(Struct):
    """A response; a tensor of one element is a scalar, others are flat lists."""

    id: str | None = None
    model_name: str | None = None
    text_output: str | list[str] | None = None
    output_ids: Any = None
    sequence_length: Any = None
    output_log_probs: Any = None
    outputs: list[Tensor] | None = None


def claims(keys: Keys) -> bool:
    """Whether a response with these keys is Triton's."""
    return "model_name" in keys and any(name in keys for name in (*_TENSORS, "outputs"))


def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
    """One call a beam; None when the response is not Triton's."""
    response: Response = wrapped.response
    if response.model_name is None:
        return None
    _name_outputs(response)
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    refuse_nul({"id": response.id, "model_name": response.model_name})
    lengths = _integers(response.sequence_length, "sequence_length") or []
    num_beams = max(len(lengths), 1)
    if num_beams > MAX_BEAMS:
        raise LineError("bad_field", f"sequence_length has {num_beams} elements; expected one a beam")
    texts = response.text_output if isinstance(response.text_output, list) else [response.text_output]
    shared = {
        **wrapped.shared(),
        "response_id": text_or_none(response.id),
        "model": response.model_name,
        "engine": "tensorrt-llm",
        "log_format": NAME,
        "num_choices": num_beams,
        "messages_json": prompt_messages(request.text_input),
        "sampling": _stated(request),
        "notes": ("truncated_support",) if request.min_length else (),
    }
    ids = _rows(_integers(response.output_ids, "output_ids"), num_beams, "output_ids")
    logprobs = _rows(_numbers(response.output_log_probs, "output_log_probs"), num_beams, "output_log_probs")
    sent = _integers(request.input_ids, "input_ids")
    return tuple(
        Call(
            **shared,
            choice_index=beam,
            **_tokens(
                _unpadded(ids[beam], lengths[beam] if lengths else None) if ids is not None else None,
                _asked_for(logprobs[beam]) if logprobs is not None else None,
                sent,
                request.exclude_input_in_output,
            ),
            reply_text=texts[beam] if beam < len(texts) else None,
        )
        for beam in range(num_beams)
    )


BODY = Body(name=NAME, request=Request, response=Response, claims=claims, calls=calls)


def _name_outputs(response: Response) -> None:
    """The tensors of `infer` under their names."""
    for tensor in response.outputs or ():
        if tensor.name == "text_output":
            texts = tensor.data if isinstance(tensor.data, list) else [tensor.data]
            response.text_output = [one for one in texts if isinstance(one, str)]
        elif tensor.name in _TENSORS:
            setattr(response, tensor.name, tensor.data)


def _stated(request: Request) -> dict[str, Any]:
    if request.top_k is None:
        request.top_k = request.runtime_top_k
    if request.top_p is None:
        request.top_p = request.runtime_top_p
    stated = Sampling(**{name: getattr(request, name) for name in Sampling.__struct_fields__})
    return parameters(stated)


def _tokens(
    ids: list[int] | None, logprobs: list[float] | None, sent: list[int] | None, is_excluded: bool | None
) -> dict[str, Any]:
    """Prompt, sampled ids and log-probabilities of one beam.

    `output_ids` begins with the prompt unless the request or the model's configuration excludes it, and nothing in
    the response says which. It is split by the prompt that was sent, or by the number of log-probabilities; where
    neither is known, the ids cannot be told apart and are left out.
    """
    prompt, sampled = sent, None
    if ids is not None and is_excluded:
        sampled = ids
    elif ids is not None and sent and ids[: len(sent)] == sent:
        sampled = ids[len(sent) :]
    elif ids is not None and logprobs is not None and len(logprobs) <= len(ids):
        begin = len(ids) - len(logprobs)
        prompt, sampled = (ids[:begin] or sent), ids[begin:]
    return {
        "prompt_token_ids": pack_ids(prompt or None),
        "token_ids": pack_ids(sampled),
        "token_logprobs": None if logprobs is None else pack_logprobs(logprobs),
        "num_prompt_tokens": len(prompt) if prompt else None,
    }


def _unpadded(ids: list[int], length: int | None) -> list[int]:
    """Ids up to the length that the server states, else up to the padding."""
    if length is None:
        length = len(ids)
        while length and ids[length - 1] == PAD:
            length -= 1
    if any(one < 0 for one in ids[:length]):
        raise LineError("bad_field", f"output_ids has {PAD} within its {length} tokens; expected it only behind them")
    return ids[:length]


def _asked_for(logprobs: list[float]) -> list[float] | None:
    """None of an all-zero list: that is how the backend answers a request that asked for none."""
    return logprobs if any(logprobs) else None


def _rows(values: list[Any] | None, num_beams: int, field: str) -> list[list[Any]] | None:
    if values is None:
        return None
    if len(values) % num_beams:
        raise LineError("bad_field", f"{field} has {len(values)} elements for {num_beams} beams; expected a multiple")
    width = len(values) // num_beams
    return [values[beam * width : (beam + 1) * width] for beam in range(num_beams)]


def _integers(value: Any, field: str) -> list[int] | None:
    flat = _flat(value)
    for one in flat or ():
        if type(one) is not int or not PAD <= one <= _LARGEST_ID:
            raise LineError("bad_field", f"{field} holds {str(one)[:40]!r}; expected integers of 32 bits")
    return flat


def _numbers(value: Any, field: str) -> list[float] | None:
    flat = _flat(value)
    for one in flat or ():
        if type(one) not in (int, float) or abs(one) > _GREATEST:
            raise LineError("bad_field", f"{field} holds {str(one)[:40]!r}; expected numbers of a double's range")
    return None if flat is None else [float(one) for one in flat]


def _flat(value: Any) -> list[Any] | None:
    """The elements of a tensor, however deep it is nested; a scalar is a tensor of one element."""
    if value is None:
        return None
    flat: list[Any] = value if isinstance(value, list) else [value]
    while flat and all(isinstance(one, list) for one in flat):
        flat = [element for one in flat for element in one]
    return flat
