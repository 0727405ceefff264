"""Cases of faults that show in more than one call's numbers: choices, versions, turns, gateways, files and scores."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.ingest.fault_cases import (
    BOTH,
    FIRST,
    UNUSED,
    Case,
    case,
    chunks,
    first,
    hex_of,
    jumbled,
    numbers,
)
from tests.ingest.fault_cases_calls import MISSING, NO_IDS, SHORT, TEXT_ONLY, sglang
from tests.ingest.hand_made import G1, G2, L1, L2, P1, P2, S1, envelope, response
from tests.ingest.native_made import payload
from tests.ingest.score_examples import LANGFUSE, PLAIN
from tests.ingest.tracing_made import CHAT, attributes, otlp, span, valued

EMAIL = {"messages": [{"role": "user", "content": "I am ann@example.com"}]}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SEEN = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}]
NO_SETTINGS = ("logprob_kind_unknown", "sampling_params_unknown", "version_unknown")
SPAN_CODES = (MISSING, *NO_IDS, *NO_SETTINGS[1:])
FORKED = (FIRST, "F" * 14 + "TTT")


def second(
    prompt: list[int] | None = None, ids: list[int] | None = None, at: int = 1, **changes: Any
) -> dict[str, Any]:
    """The toy's second call; `changes` go to the choice, but for those of the envelope and the response."""
    outer = {name: changes.pop(name) for name in ("request", "ts", "deployment") if name in changes}
    head = {"id": f"chatcmpl-{at + 1}", **changes.pop("head", {})}
    ids = G2 if ids is None else ids
    answer = response(P2 if prompt is None else prompt, ids, [-0.5] * len(ids), **changes)
    return envelope({**answer, **head}, call_index=at, **outer)


def several(*choices: dict[str, Any], **request: Any) -> dict[str, Any]:
    """One response with several choices, or with fewer than were asked for."""
    answer = response(P1, G1, L1)
    answer["choices"] = [{**answer["choices"][0], **one} for one in choices]
    answer["usage"]["completion_tokens"] = sum(len(one["token_ids"]) for one in answer["choices"])
    return envelope(answer, request=request)


def litellm(**changes: Any) -> dict[str, Any]:
    """LiteLLM's payload of the toy's first call, served by the deployment of the toy."""
    record = {**payload("litellm_standard.payload.json"), "trace_id": "trace-a", "model_id": "toy", "model": "toy@v7"}
    answer = {**record["response"], "model": "toy@v7", **changes.pop("head", {})}
    return {**record, "response": answer, **changes}


def spend(**changes: Any) -> dict[str, Any]:
    """The row of LiteLLM's spend logs of the same call."""
    record = litellm()
    names = ("call_type", "model", "model_id", "custom_llm_provider", "response", "messages", "completion_tokens")
    kept = {name: record[name] for name in names}
    return {"request_id": record["id"], "spend": 0.0, "startTime": "2026-09-21T14:13:20.100Z", **kept,
            "session_id": "trace-a", "metadata": {}, "proxy_server_request": {"temperature": 1.0, "top_p": 1.0},
            **changes}  # fmt: skip


def spanned(**changes: Any) -> dict[str, Any]:
    """A line of OTLP with one model call."""
    return otlp(span(CHAT, **changes))


def ducklake(**changes: Any) -> dict[str, Any]:
    """A row of litellm-ducklake-sink whose response was cut."""
    text = json.dumps(litellm()["response"])
    return {"request_id": "trace-a", "request_day": "2026-09-21", "messages": "[]", "response": text[:200],
            "payload_bytes": len(text), **changes}  # fmt: skip


def score(base: dict[str, Any] = PLAIN, **changes: Any) -> dict[str, Any]:
    """A score of the case's trace."""
    named = {"trace_id": "trace-a"} if base is PLAIN else {"id": "trace-a", "traceId": "0" * 31 + "1"}
    return {**base, **named, **changes}


ANY_ID = base64.b64encode(bytes.fromhex(hex_of("base64"))).decode()
CUMULATIVE, GOING_ON = (
    [
        {**payload("sglang_generate.response.json"), "output_ids": G2[start:end], "text": "x",
         "meta_info": {"id": "r-1", "prompt_tokens": 14, "completion_tokens": end,
                       "finish_reason": {"type": "stop"} if end == 3 else None,
                       "output_token_logprobs": [[value, one, None] for value, one in zip(L2, G2, strict=True)][start:end]}}
        for start, end in pieces
    ]
    for pieces in (((0, 1), (0, 2), (0, 3)), ((0, 1), (1, 2), (2, 3)))
)  # fmt: skip
ASKED_BY_ID = {"model": "toy@v7", "input_ids": P2, "sampling_params": {"temperature": 1.0}}

CHOICES: tuple[Case, ...] = (
    case(61, "merged-count", "n = 2, one choice, seven ids where the server counts four for it",
         first([*L1, *L2], [*G1, *G2], request={"n": 2}, head={"usage": {"prompt_tokens": 6, "completion_tokens": 4}}),
         codes=("best_of_n", SHORT), masks=("F" * 13,)),
    case(61, "merged-asked", "n = 2 and one choice", several({}, n=2), codes=("best_of_n",), masks=(FIRST,)),
    case(61, "by-index", "a stream of two choices, told apart by their index",
         envelope([*chunks({"token_ids": G1, "logprobs": numbers(*L1)}),
                   {**chunks({"token_ids": [201, 13], "logprobs": numbers(-0.5, -0.25), "index": 1})[0],
                    "usage": {"prompt_tokens": 6, "completion_tokens": 6}}]),
         codes=(("best_of_n",), ("best_of_n",)), faults=("ambiguous_siblings", "best_of_n"), masks=(UNUSED, "F" * 8),
         notes={"ambiguous_siblings": 2}),
    case(63, "cumulative", "SGLang's chunks, each with all tokens so far",
         envelope(CUMULATIVE, request=ASKED_BY_ID), masks=("F" * 14 + "TTT",)),
    case(63, "going-on", "the same under --incremental-streaming-output", envelope(GOING_ON, request=ASKED_BY_ID),
         masks=("F" * 14 + "TTT",)),
    case(64, "arguments", "the tool call of the first answer was written anew in the next prompt",
         first(), second([*P1, 201, 202, 99, 203, 13, *S1]), codes=((), ()), masks=(FIRST, "F" * 15 + "TTT"),
         why="A fork: sampled tokens are never written anew."),
    case(65, "stale-prompt", "prompt_logprobs null, from a cached prefix", first(head={"prompt_logprobs": None}),
         masks=(FIRST,)),
    case(66, "image", "an image among the parts of a message", first(request={"messages": SEEN}),
         codes=("multimodal_prompt",), masks=(FIRST,)),
    case(66, "sglang-image", "image_data in a request to /generate",
         {**sglang(), "request": {**ASKED_BY_ID, "image_data": ["a.png"]}}, codes=("multimodal_prompt",),
         masks=("F" * 14 + "TTT",)),
    case(66, "of-images", "a text that speaks of an image_url",
         first(request={"messages": [{"role": "user", "content": '{"type": "image_url"}'}]}), masks=(FIRST,)),
    case(68, "triton-zeros", "output_log_probs of zeros alone",
         envelope({"model_name": "toy@v7", "text_output": "x", "output_ids": [*P1, *G1], "output_log_probs": [0.0] * 4},
                  request={"input_ids": P1}), codes=(MISSING,), masks=(UNUSED,)),
)  # fmt: skip

VERSIONS: tuple[Case, ...] = (
    case(69, "two-spans", "weights changed within the reply",
         first(weight_versions=[{"version": "7", "start": 0, "end": 2}, {"version": "8", "start": 2, "end": 4}]),
         codes=("version_ambiguous",), masks=(FIRST,)),
    case(69, "no-version", "neither the log nor the settings name a version", first(deployment="unversioned"),
         codes=("version_unknown",), masks=(FIRST,)),
    case(70, "flushless", "two versions in one trace, and no word of the prefix cache", first(),
         second(head={"model": "toy@v8"}), codes=((), ()), faults=("version_ambiguous",), masks=(BOTH,),
         why="No log shows a stale cache; a trace over two versions is refused as a whole."),
    case(71, "update-weights", "the same of another engine", first(), second(head={"model": "toy@v9"}),
         codes=((), ()), faults=("version_ambiguous",), masks=(BOTH,)),
    case(73, "refit", "a version for each token, the last one new",
         first(weight_versions=[{"version": "7", "start": 0, "end": 3}, {"version": "8", "start": 3, "end": 4}]),
         codes=("version_ambiguous",), masks=(FIRST,), why="Stored token by token in version_spans."),
    case(74, "areal-runs", "output_versions 7, 7, 8",
         {**payload("areal_response.line.json"), "trace_id": "trace-a"},
         codes=("version_ambiguous", "time_of_reading", *NO_SETTINGS[:2]),
         faults=("version_ambiguous", *NO_SETTINGS[:2]), masks=("F" * 14 + "TTT",)),
    case(75, "interrupted", "a call that was aborted for an update, and gone on from by the next version",
         first(finish_reason="abort"), second([*P1, *G1], head={"model": "toy@v8"}), codes=((), ()),
         faults=("version_ambiguous",), masks=("FFFFFFTTTTTTT",)),
)  # fmt: skip

TURNS: tuple[Case, ...] = (
    case(76, "history-missing", "a prompt without the first turns", first(), second([1, 10, *S1]), codes=((), ()),
         masks=(FIRST, "F" * 6 + "TTT")),
    case(77, "interleaved", "two agents' calls in turn, children before parents",
         second([2, *P2], at=3), second(at=2), first(), second([2, *P1], G1, at=1), codes=((),) * 4,
         masks=(BOTH, "F" + BOTH), why="The parent is the call with the longest tokens that a prompt begins with."),
    case(78, "newlines", "198, 198 sampled, 271 in the next prompt", first([-0.5, -0.25], [198, 198]),
         second([*P1, 271, *S1]), codes=((), ()), masks=("FFFFFFTT", "F" * 11 + "TTT")),
    case(79, "drift", "one sampled token that two stand for in the next prompt", first(),
         second([*P1, 201, 203, 204, 203, 13, *S1]), codes=((), ()), masks=(FIRST, "F" * 15 + "TTT")),
    case(80, "replayed", "the same call again", first(), first(), ends=("landed", "duplicate"), masks=(FIRST,)),
    case(81, "mismatch", "the last sampled token differs in the next prompt", first(),
         second([*P1, *G1[:3], 99, *S1]), codes=((), ()), masks=FORKED),
    case(82, "stripped", "the template took the thinking out of the history", first(), second([*P1, 203, 13, *S1]),
         codes=((), ()), masks=(FIRST, "F" * 12 + "TTT")),
    case(83, "thought-dropped", "the thinking of the earlier turn is gone", first(), second([*P1, 13, *S1]),
         codes=((), ()), masks=(FIRST, "F" * 11 + "TTT")),
    case(85, "tool-tokens", "tokens of a tool's answer between two calls", first(), second(), codes=((), ()),
         masks=(BOTH,), why="Only sampled tokens are true in a mask; their number is checked when a trace is written."),
)  # fmt: skip

GATEWAYS: tuple[Case, ...] = (
    case(10, "litellm-stream", "LiteLLM's record of a stream, without logprobs and prompt ids",
         litellm(stream=True, head={"prompt_token_ids": None, "choices": [
             {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}]}),
         codes=(MISSING, *NO_IDS, "gateway_dropped_logprobs"), faults=(MISSING, *NO_IDS), masks=TEXT_ONLY),
    case(86, "logged-twice", "one call twice, its keys in another order", first(), jumbled(first()),
         ends=("landed", "duplicate"), masks=(FIRST,)),
    case(87, "cut-text", "a message with litellm_truncated in its middle",
         spend(messages=[{"role": "user", "content": "a... (litellm_truncated skipped 9 chars) ...b"}]),
         codes=("payload_truncated",), faults=(), masks=(FIRST,), why="Lists of numbers are whole, so it is trained."),
    case(87, "cut-response", "a response whose JSON ends in the middle", ducklake(), ends="payload_cut"),
    case(89, "other-numbers", "the gateway's record gives other logprobs than the engine's", first(),
         first([-0.9, -0.75, -0.0625, -0.03125], ts="2026-11-22T08:00:02Z"), codes=((), ()),
         faults=("conflicting_copies",), masks=(UNUSED,), notes={"call_logged_twice": 1, "conflicting_copies": 1}),
    case(89, "replaced", "a guardrail after the call replaced the answer",
         litellm(guardrail_information=[{"guardrail_mode": "post_call", "guardrail_status": "guardrail_intervened"}]),
         codes=("output_overridden",), masks=(FIRST,)),
    case(89, "prompt-masked", "a guardrail before the call changed the prompt",
         litellm(guardrail_information={"guardrail_mode": "pre_call", "guardrail_status": "guardrail_intervened"}),
         masks=(FIRST,), why="The ids of the prompt say what the engine saw."),
    case(89, "from-cache", "the gateway answered from its cache", litellm(cache_hit=True), codes=("cache_hit",),
         masks=(FIRST,)),
    case(90, "missed-address", "an e-mail address that the gateway's masking missed, in a lake that drops such ids",
         first(request=EMAIL), codes=("redacted_ids",), faults=("no_action_tokens", "redacted_ids"), masks=TEXT_ONLY,
         why="Texts are searched again; with redacted_ids = \"drop\" the ids, which spell the same, go too."),
    case(92, "no-parent", "a span whose parent was never exported", spanned(parentSpanId="00f067aa0ba902b7"),
         codes=SPAN_CODES, masks=TEXT_ONLY, why="Kept: a call needs no parent to be one."),
    case(93, "dropped-span", "the second of three calls is not in the log", first(),
         second([*P2, *G2, 12, 305, 13, 11], at=2, request={"messages": [
             {"role": "user", "content": "refund 41?"}, {"role": "assistant", "content": "done"},
             {"role": "user", "content": "?"}, {"role": "assistant", "content": "A lost answer."}]}),
         codes=((), ()), masks=("FFFFFFTTTT" + "F" * 11 + "TTT",), notes={"turn_not_logged": 1},
         why="Noted: what was logged is exact. gate.required_calls makes a trace with too few calls missing_call."),
    case(93, "dropped-tool-call", "a call that only called a tool is not in the log", first(),
         second([*P2, *G2, 12, 305, 13, 11], at=2, request={"messages": [
             {"role": "user", "content": "refund 41?"}, {"role": "assistant", "content": "done"},
             {"role": "assistant", "content": None, "tool_calls": [{"id": "call_9", "function": {"name": "look"}}]},
             {"role": "tool", "tool_call_id": "call_9", "content": "41"}]}),
         codes=((), ()), masks=("FFFFFFTTTT" + "F" * 11 + "TTT",), notes={"turn_not_logged": 1},
         why="By the id of the tool call, which the reply would hold."),
    case(94, "emitted-twice", "the same call a few milliseconds later, by the envelope", first(),
         first(ts="2026-11-22T08:00:00.004Z"), ends=("landed", "duplicate"), masks=(FIRST,)),
    case(95, "hex", "ids in hex, times as numbers",
         spanned(startTimeUnixNano=1790000000100000000, endTimeUnixNano=1790000000420000000), codes=SPAN_CODES,
         masks=TEXT_ONLY),
    case(95, "base64", "ids in base64, times as texts", spanned(traceId=ANY_ID, spanId="t61rcWkgMzE="),
         codes=SPAN_CODES, masks=TEXT_ONLY),
    case(95, "array", "an id as a list of bytes", spanned(traceId=list(range(16))), ends="bad_trace_id"),
    case(95, "base64-as-hex", "hex that somebody decoded as base64: 24 bytes",
         spanned(traceId="d1fdeb4f3e9ebda79d7749dbdb7d3dd7af6d5f38f9dfdfd7"), ends="bad_trace_id"),
    case(96, "other-dialect", "numbered attributes of an older instrumentation",
         otlp(span({"gen_ai.request.model": "toy", "llm.request.type": "chat", "gen_ai.prompt.0.role": "user",
                    "gen_ai.prompt.0.content": "refund 41?", "gen_ai.completion.0.role": "assistant",
                    "gen_ai.completion.0.content": "Refunded."})), codes=SPAN_CODES, masks=TEXT_ONLY),
    case(96, "nested", "messages as nested values in the place of a text", {"resourceSpans": [{"scopeSpans": [{
         "spans": [{**span({}), "attributes": [
             *attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "toy"}),
             {"key": "gen_ai.output.messages", "value": valued(
                 [{"role": "assistant", "parts": [{"type": "text", "content": "Refunded."}]}])}]}]}]}]},
         codes=SPAN_CODES, masks=TEXT_ONLY),
)  # fmt: skip

FILES: tuple[Case, ...] = (
    case(98, "cut-gzip", "a gzip file that ends in the middle of its last line", first(), packing="cut gzip",
         file_notes=("truncated_gzip",), masks=(FIRST,),
         why="The cut line is truncated_tail, and is read again when the file has grown."),
    case(100, "gzip", "the same file whole", first(), packing="gzip", masks=(FIRST,)),
    case(101, "half-pair", "half a surrogate pair in the answer", first(text="a\ud83d"), codes=("lone_surrogate",),
         faults=(), masks=(FIRST,), why="U+FFFD stands in its place; ids are not concerned."),
    case(103, "long-line", "a line of two megabytes", first(text="x" * 2_000_000), masks=(FIRST,)),
    case(104, "late-field", "a field that no line before had", {**first(), "new": {"deep": [1]}}, masks=(FIRST,),
         why="Columns are stated, never guessed from the first lines."),
)  # fmt: skip

SCORES: tuple[Case, ...] = (
    case(105, "score-first", "a score, then the call that it is about", score(), first(), masks=(FIRST,),
         why="Both are kept, and joined by every night's gate anew."),
    case(106, "score-twice", "a score twice", score(LANGFUSE), score(LANGFUSE), ends=("landed", "duplicate"),
         codes=None),
    case(106, "score-revised", "a score, then the same with a later update", score(LANGFUSE),
         score(LANGFUSE, value=0, stringValue="False", updatedAt="2026-09-22T10:00:00Z"), codes=None),
    case(109, "score-text", "a boolean score whose value is a text", score(LANGFUSE, value="1"), ends="bad_value"),
    case(110, "no-reward", "a score without a value", score(value=None), codes=None, why="A withdrawal or nothing; never 0."),
    case(110, "unlinked", "a score that names nothing", {**PLAIN, "trace_id": None}, ends="no_join_key"),
    case(112, "backwards", "the later event first", score(event_time="2026-11-23T09:00:00Z", value=0),
         score(), codes=None, why="What counts is the event's time."),
    case(123, "thumbs", "a thumb by the key of another system", score(trace_id=None, business_key="T-41", name="thumb",
         source_kind="user"), codes=None, why="A second file with its own keys; it joins by business_key."),
)  # fmt: skip

LATE: tuple[Case, ...] = (
    case(113, "unset", "the request states no top_k, min_p or penalty, nor do the settings", first(deployment="auto"),
         codes=("sampling_params_unknown",), masks=(FIRST,)),
    case(115, "same-body", "one request body twice, two answers, neither gone on from", first(),
         first([-0.5, -0.25], [201, 13], head={"id": "chatcmpl-9"}), codes=((), ()), faults=("ambiguous_siblings",),
         masks=(UNUSED, "F" * 8), notes={"ambiguous_siblings": 2}, why="No retry is guessed from equal bodies."),
    case(117, "one", "1.0 as a placeholder", first([-0.5, 1.0, -0.25, -0.125]), codes=("positive_logprob",),
         masks=(UNUSED,)),
    case(117, "minus-1e9", "-1e9 as a placeholder", first([-0.5, -1e9, -0.25, -0.125]), codes=("sentinel_logprob",),
         masks=(UNUSED,)),
    case(118, "ignored", "logprobs were asked for and are not there", first(None, request={"logprobs": True}),
         codes=(MISSING,), masks=(UNUSED,), why="Absent beats wrong."),
    case(120, "derendered", "a stream of tokens without logprobs",
         envelope(chunks({"token_ids": G1[:2]}, {"token_ids": G1[2:]})), codes=(MISSING,), masks=(UNUSED,)),
    case(124, "router", "a router's prompt, whose ids the log does not have",
         envelope(response(None, G1, L1)), codes=("no_prompt_ids",), masks=("FFFF",),
         why="Ids of a prompt are never made of its text."),
)  # fmt: skip

TRACE_CASES = (*CHOICES, *VERSIONS, *TURNS, *GATEWAYS, *FILES, *SCORES, *LATE)
