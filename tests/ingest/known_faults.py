"""The known faults of logged traces, which of them a log file can carry, and the page that says what becomes of each.

`python -m tests.ingest.known_faults` writes docs/faults.md; a test holds that page and cases agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.ingest.fault_cases import Case
from tests.ingest.fault_cases_calls import CALL_CASES
from tests.ingest.fault_cases_traces import TRACE_CASES

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

CASES: tuple[Case, ...] = tuple(sorted((*CALL_CASES, *TRACE_CASES), key=lambda one: one.number))
"""All cases, in the order of the faults."""

FAULTS: dict[int, tuple[str, str]] = {
    1: ("vllm-project/vllm#3179, #4795", "logprobs or top_logprobs missing or null"),
    2: ("vllm-project/vllm PR 4149", "guided decoding gives minus infinity, which becomes -9999.0"),
    3: ("NVIDIA-NeMo/RL PR 3390", "top_logprobs null turns logprobs into null, or the call into an error"),
    4: ("sgl-project/sglang PR 34627", "output logprobs dropped when no input logprobs were asked for"),
    5: ("ggml-org/llama.cpp#11346", "completions with logprobs null"),
    6: ("sgl-project/sglang#26778, #28456, PR 28601", "streams lose the logprobs of chunks with thinking"),
    7: ("sgl-project/sglang PR 26782", "chunks of tool calls without logprobs, or several steps in one chunk"),
    8: ("vllm-project/vllm PR 37795, #37737", "streams lose the logprobs of chunks with tool calls"),
    9: ("ml-explore/mlx-lm PR 1630", "streamed logprobs dropped"),
    10: ("BerriAI/litellm#3253, #4898, #10686", "a joined stream loses logprobs, prompt ids or finish_reason"),
    11: ("BerriAI/litellm#3254", "logprobs missing from the record of the tracing system"),
    12: (
        "Menci/Floway#481; microsoft/autogen PR 7967; ai-dynamo/dynamo PR 2928",
        "a joined stream keeps the last chunk's logprobs alone",
    ),
    13: ("huggingface/text-generation-inference PR 1682, #2973", "chat with an empty list of logprobs"),
    14: ("huggingface/text-generation-inference#3070", "the prefill is off by default"),
    15: (
        "pydantic/pydantic-ai#8642, vercel/ai#7767, langchain4j/langchain4j PR 5561",
        "a client library does not pass logprobs on",
    ),
    17: ("madroidmaq/mlx-omni-server PR 56; InternLM/lmdeploy PR 1985", "minus infinity clipped to -100 or the like"),
    18: ("vllm-project/vime PR 70, #64, PR 69; pytorch/rl PR 2856", "unequal lengths padded with 0.0, or cut"),
    19: ("NovaSky-AI/SkyRL PR 758", "an end token that the trainer appended, with 0.0"),
    20: ("verl-project/verl PR 6299", "logprobs misaligned where some turns have none"),
    21: ("rllm-org/rllm", "null entries skipped, so that later ones move left"),
    22: ("huggingface/OpenEnv PR 1036", "ids and logprobs of equal length, shifted by one"),
    24: ("huggingface/trl PR 3867", "the likeliest token's logprob taken for the sampled one's"),
    25: ("sgl-project/sglang#12418", "the triple of logprob, id and text misread"),
    26: ("microsoft/agent-lightning#74, #308", "no tokens with structured output"),
    27: ("THUDM/slime#1790", "logprobs beyond any double"),
    28: ("sgl-project/sglang#5984", "a NaN becomes an error of the server, and the call is missing"),
    30: ("vllm-project/vllm#9453", "raw or processed: the engine's version decides"),
    31: ("PrimeIntellect-ai/prime-rl PR 697", "logprobs divided by the temperature"),
    32: ("NVIDIA-NeMo/RL#69", "top-p or top-k: the trainer's distribution is another"),
    33: ("sgl-project/sglang PR 36213", "whether the temperature is in the returned logprobs"),
    34: ("thinking-machines tinker-feedback#148", "logprobs ignore the sampling parameters"),
    35: ("ggml-org/llama.cpp PR 10783", "probabilities before or after sampling under one name"),
    36: ("huggingface/text-generation-inference#2502", "0.0 for most tokens under top-p"),
    38: (
        "huggingface/trl#4159, PR 4163; verl-project/verl#6240; modelscope/ms-swift PR 8442",
        "raw logprobs at another temperature than 1",
    ),
    39: ("huggingface/trl#4772", "logprobs of server and trainer differ"),
    40: ("vllm-project/vllm#43466, #49319", "the sampled token missing among those with logprobs"),
    41: ("vllm-project/vllm#17876", "speculative decoding: 0.0 for accepted tokens"),
    42: ("vllm-project/vllm#34497", "speculative decoding: logprobs broken in some versions"),
    43: ("vllm-project/vllm#53488", "prompt_logprobs corrupted"),
    44: ("ggml-org/llama.cpp#27972", "speculative decoding: 0.0 for every token"),
    45: ("sgl-project/sglang PR 20799", "more logprobs than ids"),
    48: ("NVIDIA/TensorRT-LLM PR 18190", "ids trimmed at a stop word, logprobs not"),
    50: ("vllm-project/vllm PR 2611", "the end token taken out of the ids"),
    51: ("sgl-project/sglang#1609", "end of the reply or stop string: nothing says which"),
    52: ("sgl-project/sglang#25055, PR 25056", "logprobs of the thinking, which the text leaves out"),
    53: ("vllm-project/vllm#49254, #56263", "a parser drops text or tool calls"),
    54: ("vllm-project/vllm#48020, #44326", "a streaming parser drops tool calls"),
    55: ("vllm-project/vllm#40816, #43933", "the answer stands in the field of the thinking"),
    56: ("ollama/ollama#13497", "halves of characters become U+FFFD"),
    57: ("openai/tiktoken#388, #176; standardcompletions/rfcs#2", "single tokens are no valid UTF-8"),
    58: ("karpathy/nanochat PR 693", "special tokens handled in another way give other ids"),
    59: ("vllm-project/vllm#10234", "an error of the server on echo with logprobs"),
    60: ("jingyaogong/minimind#850; QwenLM Qwen3.8 discussion #131", "special tokens skipped, empty think blocks"),
    61: ("BerriAI/litellm#38180", "a stream of several choices merged into one"),
    63: ("sgl-project/sglang", "chunks that repeat, or go on: one field, two meanings"),
    64: (
        "smg-project/smg PR 1836; ai-dynamo/dynamo PR 10637, PR 14323, #4161; lablup/mlxcel#1309",
        "arguments of tool calls written anew, so later prompts have other ids",
    ),
    65: (
        "vllm-project/vllm#8268, #3251, #3914, #5344; PR 42245, #42019",
        "prefix caching: prompt_logprobs missing or stale",
    ),
    66: ("sgl-project/sglang PR 26555", "a prompt with an image is tokenised again"),
    68: ("triton HTTP examples", "zeros where no logprobs were asked for"),
    69: ("vllm-project/vllm#54443, PR 49040", "weights updated in the middle of a request"),
    70: (
        "NVIDIA-NeMo/RL PR 4018; prime-rl PR 1650, 2266, 2270",
        "a prefix cache kept across an update of the weights",
    ),
    71: ("InternLM/lmdeploy#4917", "a stale cache after update_weights"),
    73: ("NVIDIA-NeMo/labs-molt PR 124", "a trace over an update of the weights"),
    74: ("PrimeIntellect-ai/prime-rl PR 2957", "a version for each token"),
    75: ("areal-project/AReaL#80", "interrupted calls, gone on from under other weights"),
    76: ("PrimeIntellect-ai/prime-rl PR 1383, #1334", "a prompt that does not hold the full history"),
    77: ("PrimeIntellect-ai/prime-rl PR 1674, PR 2634", "interleaved agents, joined to the wrong parent"),
    78: ("PrimeIntellect-ai/prime-rl PR 1863", "two line ends encoded again as one token"),
    79: ("rllm-org/rllm PR 272", "drift by tokenising again"),
    80: ("rllm-org/rllm PR 707", "calls replayed"),
    81: ("NVIDIA-NeMo Gym#1416", "tokens of several steps do not match"),
    82: ("verl-project/verl#6854, #6719, PR 6779, PR 3151", "the template strips the thinking"),
    83: (
        "hiyouga/LLaMA-Factory PR 10773; axon-rl gem#44; ollama#10448; tinker-cookbook PR 142",
        "the template drops the thinking of earlier turns",
    ),
    85: ("allenai/open-instruct PR 1678; huggingface/trl PR 6250", "tokens of tools not masked"),
    86: ("BerriAI/litellm#1172, #7477, #8581, #1096", "one call logged twice"),
    87: ("BerriAI/litellm#24928, #34753", "a payload cut in the middle"),
    89: ("BerriAI/litellm#7974, #14340, #5118", "the record differs from what the client got"),
    90: ("BerriAI/litellm#30447, #35951, PR 37965", "masking of personal data misses text"),
    92: ("langfuse/langfuse#17413, mastra-ai/mastra#8041, PR 8104", "orphaned spans"),
    93: ("open-telemetry otel-go#3264, otel-js#4184, otel-cpp#1870, otel-python#3152", "spans dropped under load"),
    94: (
        "Exgentic/exgentic#56; vectorize-io/hindsight#3114; mrwogu/factory-droid-openai#119; Aider-AI/aider#2995",
        "one event written two or three times, milliseconds or days apart",
    ),
    95: (
        "otel-python PR 4556, 4470, 4886; otel-swift#537; collector-contrib#36095; otel-rust#2065; otel-java#5785",
        "ids as hex, base64 or lists, times as numbers or texts",
    ),
    96: (
        "triggerdotdev/trigger.dev PR 3620, #2691; traceloop/openllmetry PR 3212; mlflow/mlflow#23051, #22943",
        "dialects of attributes, nested values",
    ),
    98: ("collector-contrib#45572", "the last line of a gzip file is lost"),
    100: ("logstash-output-file#79; logstash-input-file PR 321", "a gzip file of a writer that died"),
    101: (
        (
            "UKGovernmentBEIS/inspect_ai PR 3802; topoteretes/cognee-integrations#275; "
            "RandallLiuXin/GodotMaker PR 73; superloglabs/superlog PR 117; wandb/weave PR 6731"
        ),
        "half of a surrogate pair",
    ),
    103: ("apache/arrow#7835; huggingface/datasets#629, #2181", "lines longer than a block"),
    104: ("duckdb/duckdb#12610, #6569", "guessed columns, silently dropped"),
    105: ("langfuse/langfuse PR 2477", "a score before its trace"),
    106: ("langfuse/langfuse#13823; docs PR 3232", "a score delivered twice"),
    109: (
        "langfuse/langfuse#9323, #5552, #797, PR 1240; langfuse-python PR 629",
        "a score missing, or of a coerced type",
    ),
    110: ("microsoft/agent-lightning#392, #442", "a reward linked to nothing, or a default one"),
    112: ("Zendesk's documentation", "events out of order"),
    113: ("NVIDIA-NeMo/RL#3497; vllm-project/vllm#15241", "parameters left out come from a file beside the model"),
    115: ("PrimeIntellect-ai/verifiers PR 2368", "an equal request body is no proof of a retry"),
    117: ("allenai/open-instruct PR 1817", "placeholders 1.0 and -1e9"),
    118: ("jundot/omlx#1549, PR 1591; jjang-ai/vmlx#127", "logprobs asked for and silently left out"),
    120: ("vllm-project/vllm PR 55029, PR 57447", "streams of tokens lose logprobs"),
    123: ("langgenius/dify#27286", "thumbs that stand in an application's database alone"),
    124: ("smg-project/smg#947, PR 914", "a router renders the prompt with other ids"),
}
"""Each fault: where it was reported, and what happens."""


@dataclass(frozen=True, slots=True)
class NotMade:
    """A fault, or a form of one, without a case."""

    number: int
    form: str
    why: str


NOT_MADE = (
    NotMade(
        18, "padded with 0.0 to the right number", "Each 0.0 may be true; exact_zero_share counts them by version."
    ),
    NotMade(
        22, "shifted by one, ids spelled once", "Nothing in the log disagrees; comparing with the weights shows it."
    ),
    NotMade(31, "divided by the temperature before they were logged", "The numbers look like any others."),
    NotMade(39, "server and trainer differ", "Only computing them anew under the same weights shows it: rescoring."),
    NotMade(41, "0.0 for some tokens", "As with 18."),
    NotMade(42, "an affected version of the engine", "No log says that speculative decoding was on."),
    NotMade(70, "a stale cache under one version", "Inside the engine: flush the cache with each update."),
    NotMade(71, "the same", "As with 70."),
    NotMade(
        85,
        "a trainer's own mask is wrong",
        "A mask in a log only takes tokens out, as slime's loss_mask does; none adds one.",
    ),
    NotMade(98, "the line is missing altogether", "A file without it is whole; a later copy brings the line in."),
    NotMade(109, "a score that never arrived", "Nothing stands in the log; the gate's reward_missing says so in time."),
)
"""What no log file can carry, or what cannot be seen in one."""


def page() -> str:
    """docs/faults.md."""
    made = "\n".join(_row(one) for one in CASES)
    missing = "\n".join(f"| {one.number} | {one.form} | {one.why} |" for one in NOT_MADE)
    return f"""# Known faults of logs

Faults of logged traces that were reported of engines, gateways and trainers, and what becomes of a log that has them. Rendered from the cases of the tests, which land each of them between two good lines; `python -m tests.ingest.known_faults` writes the page again.

The numbers are those of a survey of issue trackers: a fault stands here because somebody reported it, not because every version has it. `lands` means that the line became a call or a score; a code behind it keeps the trace from being trained on, or is a note if it stands in brackets. `masked` says that the call's tokens were taken out of the action mask.

| | fault | reported in | the log shows | what becomes of it | remarks |
|---|---|---|---|---|---|
{made}

## Without a case

| | form | why |
|---|---|---|
{missing}
"""


def _row(one: Case) -> str:
    source, shows = FAULTS[one.number]
    return f"| {one.number} | {shows} | {source} | {one.says} | {_outcome(one)} | {one.why} |"


def _outcome(one: Case) -> str:
    """What becomes of the lines and their trace, in a few words."""
    ends = [end if end in ("landed", "duplicate", "blank") else f"reject `{end}`" for end in one.ends]
    words = [", then ".join(dict.fromkeys(end.replace("landed", "lands") for end in ends))]
    faults = one.faults | one.gate
    words += [", ".join(f"`{code}`" for code in sorted(faults))] if faults else []
    notes = frozenset().union(*one.codes, one.notes, one.file_notes) - faults
    words += ["(" + ", ".join(f"`{code}`" for code in sorted(notes)) + ")"] if notes else []
    if one.codes and not any("T" in mask for mask in one.masks):
        words.append("masked")
    if len(one.masks) > 1:
        words.append(f"{len(one.masks)} sequences")
    return "; ".join(words)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
