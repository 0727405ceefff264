"""Cases of faults that one call shows: its numbers, what they are of, and its tokens."""

from __future__ import annotations

from typing import Any

from tests.ingest.fault_cases import (
    FIRST,
    PROMPT,
    SECOND,
    UNUSED,
    Case,
    case,
    chunks,
    first,
    numbers,
)
from tests.ingest.hand_made import G1, G2, L1, L2, P1, P2, entries, envelope, line, response
from tests.ingest.native_made import payload
from tests.ingest.openai_made import chat, completion

MISSING, SHORT = "no_behavior_logprobs", "len_mismatch"
NO_IDS = ("no_prompt_ids", "no_token_ids")
TEXT_ONLY = ("",)
"""The mask of a trace without tokens."""

SERVED = {"model": "toy@v7"}
ERROR = envelope({"error": {"message": "Out of range float values are not JSON compliant", "code": 500}})
THEN = {**response(P2, G2, L2), "id": "chatcmpl-2"}
LOGPROBS_OF = [{"token": f"token_id:{one}", "logprob": value} for one, value in zip(G1, L1, strict=True)]


def sglang(**meta: Any) -> dict[str, Any]:
    """SGLang's own answer G2 to P2; `meta` goes to its meta_info."""
    answer = payload("sglang_generate.response.json")
    answer["meta_info"] = {**answer["meta_info"], "weight_versions": None, "weight_version": None, **meta}
    return envelope(answer, request={"input_ids": P2, "sampling_params": {"temperature": 1.0}})


def sglang_chat(*logged: float) -> dict[str, Any]:
    """A streamed chat answer of SGLang, four tokens long, whose thinking came in a chunk of its own."""
    thought = {"delta": {"reasoning_content": "hm"}, "matched_stop": None}
    spoken = [{"matched_stop": None, "logprobs": numbers(one)} for one in logged]
    return envelope(chunks(thought, *spoken, prompt_token_ids=None))


def tgi(**parameters: Any) -> dict[str, Any]:
    """TGI's answer, with the prefill that it leaves out unless asked."""
    answer = payload("tgi_generate.response.json")
    return envelope(answer, request={"inputs": "refund 41?", "parameters": {"do_sample": True, **parameters}})


def llamacpp(**changes: Any) -> dict[str, Any]:
    """llama.cpp's answer, whose entries hold probabilities."""
    answer = {**payload("llamacpp_completion.response.json"), "model": "toy@v7"}
    answer["completion_probabilities"] = [{"id": one, "token": "x", "prob": 0.5} for one in G2]
    answer["generation_settings"] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **changes}
    return envelope(answer, request={"prompt": P2})


def streamed(*pieces: dict[str, Any]) -> dict[str, Any]:
    """A streamed answer in the envelope."""
    return envelope(chunks(*pieces))


def counted(num_tokens: int) -> dict[str, Any]:
    """A head with another count of sampled tokens."""
    return {"usage": {"prompt_tokens": len(P1), "completion_tokens": num_tokens}}


ABSENT: tuple[Case, ...] = (
    case(1, "logprobs-null", "logprobs is null", first(None), codes=(MISSING,), masks=(UNUSED,)),
    case(1, "one-null", "one sampled token's logprob is null", first([-0.5, None, -0.25, -0.125]), codes=(MISSING,),
         masks=(UNUSED,), why="Nothing is filled in: the number stays missing."),
    case(1, "top-null", "top_logprobs alone is null",
         first({"content": [{**one, "top_logprobs": None} for one in entries(L1)]}), masks=(FIRST,)),
    case(2, "clamped", "-9999.0, the server's stand-in for minus infinity", first([-0.5, -9999.0, -0.25, -0.125]),
         codes=("sentinel_logprob",), masks=(UNUSED,)),
    case(3, "content-null", "logprobs without a list in it", first({"content": None}), codes=(MISSING,),
         masks=(UNUSED,)),
    case(3, "server-error", "the error that the server answered with", ERROR, ends="no_choices"),
    case(4, "sglang-none", "output_ids without output_token_logprobs",
         sglang(output_token_logprobs=None), codes=(MISSING,), masks=("F" * 17,)),
    case(5, "completions-null", "a completion with logprobs null", envelope(completion(head=SERVED)),
         codes=(MISSING, *NO_IDS), masks=TEXT_ONLY),
    case(6, "thinking-chunk", "three entries for four tokens, none in the chunk of the thinking",
         sglang_chat(-0.5, -0.25, -0.125), codes=(SHORT, *NO_IDS), masks=TEXT_ONLY),
    case(7, "bundled", "two chunks with two tokens each",
         streamed({"token_ids": G1[:2], "logprobs": numbers(*L1[:2])},
                  {"token_ids": G1[2:], "logprobs": numbers(*L1[2:])}), masks=(FIRST,)),
    case(7, "bundled-short", "two chunks with two tokens each, the second with one logprob",
         streamed({"token_ids": G1[:2], "logprobs": numbers(*L1[:2])},
                  {"token_ids": G1[2:], "logprobs": numbers(L1[2])}), codes=(SHORT,), masks=(UNUSED,)),
    case(8, "tool-chunk", "a chunk with a tool call, and no logprobs in it",
         streamed({"token_ids": G1[:3], "logprobs": numbers(*L1[:3])},
                  {"token_ids": G1[3:], "delta": {"tool_calls": [{"index": 0, "function": {"name": "lookup"}}]}}),
         codes=(SHORT,), masks=(UNUSED,)),
    case(9, "stream-none", "chunks with ids and without logprobs", streamed({"token_ids": G1}), codes=(MISSING,),
         masks=(UNUSED,)),
    case(10, "no-finish", "a stream in which no chunk has a finish_reason",
         streamed({"token_ids": G1, "logprobs": numbers(*L1), "finish_reason": None}), codes=("stream_cut",),
         masks=(UNUSED,)),
    case(11, "joined", "the gateway's record without logprobs, then the engine's of the same response",
         first(None), first(ts="2026-11-22T08:00:02Z"), codes=((MISSING,), ()), faults=(), masks=(FIRST,),
         notes={"call_logged_twice": 1}, why="Joined by the response's id; the fuller copy counts."),
    case(12, "last-only", "a joined stream with the last token's logprob alone", first(L1[-1:]), codes=(SHORT,),
         masks=(UNUSED,)),
    case(13, "empty-list", "an empty list of logprobs", envelope(chat(head=SERVED, logprobs={"content": []})),
         codes=(SHORT, *NO_IDS), masks=TEXT_ONLY),
    case(14, "prefill-empty", "TGI's prefill is empty", tgi(), codes=("field_says_processed", "no_prompt_ids"),
         faults=("no_prompt_ids",), masks=("FFF",),
         why="Log-probabilities of a prompt are not needed, but its ids are, and they stand there alone."),
    case(15, "sdk", "an SDK's record with the text alone", envelope(chat(head=SERVED)), codes=(MISSING, *NO_IDS),
         masks=TEXT_ONLY),
    case(17, "clipped", "-100.0 twice", first([-0.5, -100.0, -100.0, -0.125]), codes=("sentinel_logprob",),
         masks=(UNUSED,), why="Below -50 the same number twice is no measurement."),
    case(17, "once", "-60.5 once", first([-0.5, -60.5, -0.25, -0.125]), masks=(FIRST,),
         why="A single extreme number may be true; it is kept."),
    case(18, "padded", "six logprobs for four ids, the last two 0.0", first([*L1, 0.0, 0.0]), codes=(SHORT,),
         masks=(UNUSED,), why="Never padded, never cut."),
    case(18, "padded-alike", "two tokens' logprobs are 0.0, in number as many as ids", first([-0.5, -0.25, 0.0, 0.0]),
         masks=(FIRST,),
         why="Kept: a 0.0 may be true. Where many are, the report's exact_zero_share says so by version."),
    case(19, "appended-eos", "an end token that the trainer appended with 0.0; the server counted three tokens",
         first([*L1[:3], 0.0], head=counted(3)), codes=(SHORT,), masks=(UNUSED,),
         why="Refused, not repaired: nothing says which token was appended."),
    case(20, "some-turns", "the first of two calls has no logprobs", first(None), envelope(THEN, call_index=1),
         codes=((MISSING,), ()), faults=(MISSING,), masks=(SECOND,),
         why="Judged call by call: the second keeps its place and its numbers."),
    case(21, "skipped-null", "three logprobs for four ids: a null was skipped", first([-0.5, -0.25, -0.125]),
         codes=(SHORT,), masks=(UNUSED,)),
    case(22, "shifted", "token_id:N strings one place before the ids",
         first({"content": [*LOGPROBS_OF[1:], LOGPROBS_OF[0]]}), codes=("ids_disagree",),
         masks=(UNUSED,)),
    case(22, "shifted-triples", "SGLang's triples one place before output_ids",
         sglang(output_token_logprobs=[[-0.2, 402, None], [-0.01, 13, None], [-0.3, 401, None]]),
         codes=("ids_disagree",), masks=("F" * 17,)),
    case(24, "top-one", "the likeliest token's logprob stands first, the sampled one is another",
         first({"content": [
             {**one, "top_logprobs": [{"token": "token_id:9", "logprob": -0.01}]} for one in LOGPROBS_OF]}),
         masks=(FIRST,), why="The sampled token's own entry is used."),
    case(25, "triple-order", "a triple with the id first", sglang(output_token_logprobs=[[401, -0.3, None]]),
         ends="bad_field"),
    case(25, "triple", "triples of logprob, id and text", sglang(), masks=("F" * 14 + "TTT",)),
    case(26, "no-tokens", "a structured answer with no token logged", first([], []), faults=("no_action_tokens",),
         masks=(PROMPT,)),
    case(27, "too-large", "1e400 as a logprob", line(first([-0.5, -0.25, -0.125, -777.5])).replace(b"-777.5", b"-1e400"), codes=(
        "nonfinite_logprob", "nonfinite_number"), faults=("nonfinite_logprob",), masks=(UNUSED,)),
    case(27, "infinite", "-Infinity as a logprob", first([-0.5, -0.25, float("-inf"), -0.125]), codes=(
        "nonfinite_logprob", "nonfinite_number"), faults=("nonfinite_logprob",), masks=(UNUSED,)),
    case(28, "error-midway", "the server's error, then a call whose prompt knows of an answer that was never logged",
         ERROR, first(), envelope({**THEN, "prompt_token_ids": [*P1, *G1, 12, 7, 13, *P2[6:]]}, call_index=1,
                                  request={"messages": [{"role": "user", "content": "refund 41?"},
                                                        {"role": "assistant", "content": "done"},
                                                        {"role": "assistant", "content": "Lost."}]}),
         ends=("no_choices", "landed", "landed"), codes=((), ()), masks=("FFFFFFTTTT" + "F" * 11 + "TTT",),
         notes={"turn_not_logged": 1},
         why="Noted: what was logged is exact. gate.required_calls makes a trace with too few calls missing_call."),
)  # fmt: skip

MEANING: tuple[Case, ...] = (
    case(30, "kind-unstated", "nothing states the server's --logprobs-mode", first(deployment="kindless"),
         codes=("logprob_kind_unknown",), masks=(FIRST,), why="The settings must say it; no response does."),
    case(31, "processed-cool", "processed numbers at temperature 0.7", first(request={"temperature": 0.7}),
         masks=(FIRST,), why="Taken as they are, never divided by the temperature."),
    case(31, "raw-cool", "raw numbers at temperature 0.7", first(request={"temperature": 0.7}, deployment="raw"),
         codes=("logprob_kind_mismatch",), masks=(FIRST,)),
    case(32, "top-p", "top_p 0.95", first(request={"top_p": 0.95}), codes=("truncated_support",), masks=(FIRST,)),
    case(33, "sglang-kind", "an SGLang deployment that does not state its kind",
         {**sglang(), "deployment": "kindless"}, codes=("logprob_kind_unknown",), masks=("F" * 14 + "TTT",)),
    case(34, "ignores-parameters", "numbers that ignore the sampling parameters, stated as raw",
         first(request={"temperature": 0.9}, deployment="raw"), codes=("logprob_kind_mismatch",), masks=(FIRST,)),
    case(35, "prob", "probabilities, and nothing says after which sampler", llamacpp(), codes=(MISSING,),
         masks=("F" * 17,)),
    case(35, "prob-after", "probabilities, and post_sampling_probs says of what",
         llamacpp(post_sampling_probs=True), codes=("field_says_processed",), faults=(),
         masks=("F" * 14 + "TTT",), why="Their logarithm is taken; the field says that they are processed."),
    case(36, "warped", "TGI under top_p", tgi(top_p=0.9),
         codes=("field_says_processed", "no_prompt_ids", "truncated_support"),
         faults=("no_prompt_ids", "truncated_support"), masks=("FFF",)),
    case(38, "raw-ratio", "raw numbers at temperature 0.6", first(request={"temperature": 0.6}, deployment="raw"),
         codes=("logprob_kind_mismatch",), masks=(FIRST,)),
    case(40, "not-listed", "alternatives by id, the sampled token not among them",
         first({"content": [{**one, "top_logprobs": [{"token": "token_id:9", "logprob": -1.5}]}
                                     for one in LOGPROBS_OF]}),
         masks=(FIRST,),
         why="Alternatives are never asked for the sampled token, so nothing is missed."),
)  # fmt: skip

NINE = list(range(201, 210))
TOKENS: tuple[Case, ...] = (
    case(41, "accepted-zero", "0.0 for the tokens that a draft had right", first([-0.5, 0.0, 0.0, -0.125]),
         masks=(FIRST,), why="Kept: one call cannot tell it from certainty. The report's exact_zero_share does, by "
         "version; numbers that are all alike are constant_logprob."),
    case(43, "prompt-numbers", "nonsense in prompt_logprobs",
         first(head={"prompt_logprobs": [None, {"10": {"logprob": 5.0}}]}), masks=(FIRST,), why="They are not read."),
    case(44, "all-zero", "0.0 for every token", first([0.0] * 9, NINE), masks=("FFFFFF" + "T" * 9,),
         gate=("constant_logprob",), why="Found over all numbers of a trace, by the gate."),
    case(45, "more-numbers", "five logprobs for four ids", first([*L1, -0.5]), codes=(SHORT,), masks=(UNUSED,)),
    case(48, "stop-words", "the ids of the stop word are cut off, their logprobs are not",
         envelope({**response(P1, G1[:2], L1), "prompt_token_ids_b64": None}), codes=(SHORT,), masks=("F" * 8,)),
    case(50, "eos-removed", "no end token among the ids; the next prompt has it", first(L1[:3], G1[:3]),
         envelope(THEN, call_index=1), codes=((), ()), masks=("FFFFFFTTTF" + "FFFFTTT",),
         why="It is scaffold, with the mask false."),
    case(50, "eos-unlisted", "OpenAI counts the end token and does not list it",
         envelope(chat(head=SERVED, logprobs={"content": entries([-0.5, -0.25])})), codes=NO_IDS, masks=TEXT_ONLY,
         why="One missing entry is allowed for OpenAI alone; two are len_mismatch."),
    case(51, "stop-or-end", "finish_reason stop, stop_reason null", first(), masks=(FIRST,),
         why="stop_reason is stored where it is there; null says nothing."),
    case(52, "thinking-tokens", "tokens of the thinking, which the text leaves out", first(text="7"),
         masks=(FIRST,), why="Ids and numbers are what counts; no text is compared with them."),
    case(53, "text-lost", "tokens, and neither text nor tool call", first(message={"role": "assistant"}),
         masks=(FIRST,)),
    case(54, "tool-call-lost", "a streamed tool call that the parser dropped",
         streamed({"token_ids": G1, "logprobs": numbers(*L1), "delta": {}, "finish_reason": "tool_calls"}),
         masks=(FIRST,), why="Kept: the ids spell the call, whatever the parser made of it."),
    case(55, "wrong-field", "the answer stands in reasoning",
         first(message={"role": "assistant", "content": None, "reasoning": "done"}), masks=(FIRST,)),
    case(56, "half-characters", "texts of tokens with U+FFFD, and no ids",
         envelope(chat(head=SERVED, logprobs={"content": entries([-0.5, -0.25, -0.125], ["\ufffd", "\ufffd", "x"])})),
         codes=NO_IDS, masks=TEXT_ONLY, why="No id is ever made of a text."),
    case(57, "no-utf8", "texts of tokens with U+FFFD beside ids",
         first({"content": entries(L1, ["\ufffd", "\ufffd", "x", "."])}), masks=(FIRST,)),
    case(58, "other-tokenizer", "an id beyond the vocabulary of 500", first(ids=[*G1[:3], 500]),
         codes=("ids_out_of_vocab",), masks=(UNUSED,),
         why="tokenizer_sha256 of the settings goes into each row; an id of another vocabulary is found."),
    case(59, "echo-error", "the error that echo with logprobs ended in", ERROR, ends="no_choices"),
    case(60, "empty-thinking", "the next prompt has an empty think block before the answer", first(),
         envelope({**THEN, "prompt_token_ids": [*P1, 20, 21, *P2[6:]]}, call_index=1), codes=((), ()),
         masks=(FIRST, "F" * 16 + "TTT"), why="A fork: both calls are exact on what they saw."),
)  # fmt: skip

CALL_CASES = (*ABSENT, *MEANING, *TOKENS)
