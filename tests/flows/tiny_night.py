"""A night in miniature: a tiny random model, the logs that it would have written, and late scores.

The log-probabilities are what the model's own forward pass gives, one call at a time, so that every canary must be at
the floor; nothing of `train/` is used to make them.
"""

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 64
NIGHT = "2026-11-28"
SYSTEM = [1, 7, 8, 9, 10, 11, 12, 13, 14, 15]

SETTINGS = """
[lake]
root = "lake"
[logs]
paths = ["logs"]
outcomes = ["outcomes.csv"]
[deployments.desk]
engine = "vllm"
logprobs_mode = "processed_logprobs"
generation_config = "vllm"
version_pattern = "@(v[0-9]+)$"
[reward]
name = "correct"
source_kind = "program"
[gate]
min_admitted = 8
[model]
base = "model"
threads = 1
[[model.policies]]
version = "v0"
optimizer_step = 0
[[model.policies]]
version = "v1"
optimizer_step = 1
adapter = "adapters/v1"
parent = "v0"
state = "current"
[train]
batch_size = 8
"""


def build(folder: Path, *, num_traces: int = 48) -> Path:
    """Write model, adapter, logs, outcomes and settings into `folder`; returns the settings file."""
    torch.manual_seed(17)
    folder.mkdir(parents=True, exist_ok=True)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder / "model")
    peft = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, parameter in peft.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.05)
    peft.save_pretrained(folder / "adapters" / "v1")
    policies = {"v0": LlamaForCausalLM.from_pretrained(folder / "model").eval(), "v1": peft.eval()}
    (folder / "logs").mkdir()
    scores = []
    with (folder / "logs" / "night.jsonl").open("w", encoding="utf-8") as log:
        for number in range(num_traces):
            version = "v0" if number % 4 == 0 else "v1"
            started = datetime(2026, 11, 26, 8, tzinfo=UTC) + timedelta(minutes=number)
            for line in _trace(policies[version], version, number, started):
                log.write(json.dumps(line) + "\n")
            scores.append((number, number % 2, started + timedelta(hours=2)))
    _write_scores(folder / "outcomes.csv", scores)
    file = folder / "tracemill.toml"
    file.write_text(SETTINGS, encoding="utf-8")
    return file


def _trace(model, version: str, number: int, started: datetime) -> list[dict]:
    prompt = [*SYSTEM, 20 + number % 40]
    lines = []
    for index in range(2):
        reply, logprobs = _sample(model, prompt, num_tokens=4 + number % 3)
        lines.append(_line(version, number, index, started + timedelta(seconds=index), (prompt, reply, logprobs)))
        prompt = [*prompt, *reply, 3, 4, 5]
    return lines


@torch.no_grad()
def _sample(model, prompt: list[int], num_tokens: int) -> tuple[list[int], list[float]]:
    ids, logprobs = list(prompt), []
    for _ in range(num_tokens):
        row = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].float(), dim=-1)
        token = int(torch.multinomial(row.exp(), 1))
        ids.append(token)
        logprobs.append(float(row[token]))
    return ids[len(prompt) :], logprobs


def _line(version, number, index, started, tokens) -> dict:
    prompt, reply, logprobs = tokens
    name = f"desk@{version}"
    content = [
        {"token": f"t{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in zip(reply, logprobs, strict=True)
    ]
    return {
        "ts": started.isoformat(),
        "trace_id": f"trace-{number:04d}",
        "call_index": index,
        "ask_id": f"ask-{number:04d}",
        "user": f"user-{number % 5}@example.com",
        "workload": "desk",
        "deployment": "desk",
        "request": {
            "model": name,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "logprobs": True,
            "return_token_ids": True,
            "messages": [{"role": "user", "content": f"ask {number}"}],
        },
        "response": {
            "id": f"chatcmpl-{number:04d}-{index}",
            "object": "chat.completion",
            "created": int(started.timestamp()),
            "model": name,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": f"reply {number}"},
                    "logprobs": {"content": content},
                    "finish_reason": "stop",
                    "token_ids": reply,
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(reply),
                "total_tokens": len(prompt) + len(reply),
            },
            "prompt_token_ids": prompt,
        },
    }


def _write_scores(file: Path, scores: list[tuple[int, int, datetime]]) -> None:
    header = ["event_id", "trace_id", "name", "value", "source_kind", "source", "scorer_version", "event_time"]
    with file.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(header)
        for number, value, when in scores:
            writer.writerow(
                [f"e{number}", f"trace-{number:04d}", "correct", value, "program", "checker", "1", when.isoformat()]
            )
