"""Whether packed scoring gives what plain transformers gives, one sequence at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from schemas.errors import CheckpointError
from train.logprobs import action_tokens
from train.packing import make_pack
from train.policy import Policy
from train.registry import ModelSettings
from train.sequences import LoggedSequence

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LARGEST_MEAN_DIFFERENCE = {torch.float32: 1e-4, torch.bfloat16: 0.1}
"""Mean absolute difference in nats that rounding explains: 1e-6 in float32, 2e-2 in bfloat16 (measured 2026-11-30);
a neighbour's tokens in sight, a cap or a scale that is left out make it far more."""

_PROBE_LENGTHS = (24, 17)
"""Tokens of the two probe sequences; they share the first half of the shorter one. Convention,
untested."""


def open_policy(model: ModelSettings, *, base: Path | None = None, is_whole: bool = False) -> Policy:
    """The base model, or that of another folder, after packed scoring was found to agree with its own.

    On the threads and in the number type of the settings; weights that are trained whole are held in float32, and used
    in that type.
    """
    if model.threads:
        torch.set_num_threads(model.threads)
    dtype = "float32" if is_whole else model.dtype
    policy = Policy.load(base or model.base, dtype=dtype, device=model.device)
    policy.half_trunk = is_whole and model.dtype == "bfloat16"
    require_agreement(policy)
    return policy


def plain_logprobs(model: PreTrainedModel, sequence: LoggedSequence) -> Tensor:
    """[A] log-probabilities of the action tokens by the model's own forward pass and its own logits."""
    tokens = action_tokens(make_pack([sequence]))
    ids = torch.from_numpy(sequence.token_ids.astype(np.int64))[None].to(model.device)
    logits = model(input_ids=ids, use_cache=False).logits[0, tokens.slots.to(model.device)].float()
    scaled = logits / tokens.temperatures.to(model.device)[:, None]
    return torch.log_softmax(scaled, dim=-1).gather(-1, tokens.token_ids.to(model.device)[:, None])[:, 0]


def require_agreement(policy: Policy) -> float:
    """Mean absolute difference of packed and plain scoring on two probe sequences; refused when it is no rounding.

    Asked once of every model that is loaded, so that an architecture which packing would get wrong is never used.
    """
    probes = _probes(policy.vocabulary_size)
    with torch.inference_mode():
        packed = policy.score(make_pack(probes)).logprobs
        with _plain_attention(policy.model):
            plain = torch.cat([plain_logprobs(policy.model, probe) for probe in probes])
    difference = float((packed - plain).abs().mean())
    largest = LARGEST_MEAN_DIFFERENCE[torch.bfloat16 if policy.half_trunk else policy.model.dtype]
    if not difference <= largest:
        raise CheckpointError(
            f"{policy.base}: packed log-probabilities differ from the model's own by {difference:.3g} nats a token; "
            f"expected at most {largest:g}; this architecture does something "
            "between tokens, or with its logits, that packed scoring does not, so it cannot be used"
        )
    return difference


def largest_reload_difference(policy: Policy, folder: Path, sequences: Sequence[LoggedSequence]) -> float:
    """Largest difference between the scores of `policy` and those of a folder, in nats a token.

    `policy` is scored as it is in memory; the folder, an adapter or a whole model, is loaded by plain transformers and
    peft. An export that lost or mixed up what was trained is thereby found out.
    """
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        ours = policy.score(make_pack(sequences)).logprobs
    base = folder if policy.is_whole else policy.base
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=policy.model.dtype, local_files_only=True)
    plain = plain.to(policy.device).eval()
    if not policy.is_whole:
        plain = PeftModel.from_pretrained(plain, str(folder)).eval()
    with torch.inference_mode():
        theirs = torch.cat([plain_logprobs(plain, sequence) for sequence in sequences])
    return float((ours - theirs).abs().max())


@contextmanager
def _plain_attention(model: PreTrainedModel) -> Iterator[None]:
    """The model with the attention that transformers ships, for as long as the block lasts."""
    packed = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(packed)


def _probes(vocabulary_size: int) -> list[LoggedSequence]:
    """Two sequences of random tokens with a common beginning; all but the first token count as actions."""
    random = np.random.default_rng(0)
    shared = random.integers(0, vocabulary_size, min(_PROBE_LENGTHS) // 2)
    probes = []
    for index, length in enumerate(_PROBE_LENGTHS):
        own = random.integers(0, vocabulary_size, length - len(shared))
        probes.append(
            LoggedSequence(
                trace_id=f"probe {index}",
                trace_revision=0,
                sequence_index=0,
                behavior_version=None,
                token_ids=np.concatenate([shared, own]).astype(np.int32),
                action_mask=np.arange(length) > 0,
                behavior_logprobs=np.full(length, np.nan, dtype=np.float32),
                temperature=1.0,
            )
        )
    return probes
