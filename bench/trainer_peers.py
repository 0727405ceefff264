"""What `bench/trainer.py` compares with: the steps of TRL and verl, called as they are, on the same model and logs.

Neither trains from logs by itself: TRL's trainer generates, verl's engine is fed by a worker that does. So both are
built in place and given what they would have generated, and what is timed is their own forward pass and loss. What they
pad beforehand is not timed; what verl pads inside of its step is.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from trainer_work import ROWS, Logs, chunks, order, padded

from train.sequences import LoggedSequence

UNBOUNDED = 1e9
"""An upper clip that no ratio reaches: what is left of "cispo" is advantage times detached ratio."""

WAY_OUT = "pip install --no-deps -r bench/peers.txt -r bench/peers_trainer.txt"

MODULES = {"TRL": ("trl", "datasets", "accelerate"), "verl": ("verl", "ray", "tensordict", "hydra", "PIL")}


def missing(peer: str) -> str:
    """What to say of a peer that is not installed here; empty if it is."""
    lacks = [module for module in MODULES[peer] if find_spec(module) is None]
    return f"{peer}: not installed ({', '.join(lacks)}), so not measured: {WAY_OUT}" if lacks else ""


class Trl:
    """`GRPOTrainer._compute_loss(model, inputs)`, prompts padded to the left and completions to the right.

    TRL pads all of a generation batch to one length and cuts it into micro-batches without trimming; here each
    micro-batch is padded by itself, which spares it slots.
    """

    def __init__(self, model: Any, logs: Logs, *, by_length: bool, rows: int = ROWS, adapter: Any = None) -> None:
        self.name = f"TRL, {order(by_length)}"
        self._trainer = _trainer(model, adapter)
        self.model = self._trainer.model
        given = chunks(logs, rows, by_length=by_length)
        self._inputs = [self._input(chunk, logs) for chunk in given]
        self.num_slots = sum(each["prompt_ids"].numel() + each["completion_ids"].numel() for each in self._inputs)

    def step(self) -> float:
        """One loss a micro-batch, gradients summed: "cispo" divides by the count of the whole batch."""
        self.model.zero_grad(set_to_none=True)
        told = 0.0
        for inputs in self._inputs:
            loss = self._trainer._compute_loss(self.model, inputs)  # it has no public function for it
            loss.backward()
            told += float(loss.detach())
        return told

    def _input(self, chunk: list[LoggedSequence], logs: Logs) -> dict[str, Tensor]:
        starts = [_prompt_length(sequence) for sequence in chunk]
        parts = list(zip(chunk, starts, strict=True))
        made = {
            "prompt_ids": padded([sequence.token_ids[:start] for sequence, start in parts], left=True).long(),
            "prompt_mask": padded([np.ones(start, dtype=np.int64) for start in starts], left=True),
            "completion_ids": padded([sequence.token_ids[start:] for sequence, start in parts]).long(),
            "completion_mask": padded([np.ones_like(sequence.action_mask[start:], int) for sequence, start in parts]),
            "tool_mask": padded([sequence.action_mask[start:].astype(np.int64) for sequence, start in parts]),
            "old_per_token_logps": padded([sequence.behavior_logprobs[start:] for sequence, start in parts]),
            "advantages": torch.tensor([logs.advantage(sequence.trace_id) for sequence in chunk]),
            "num_items_in_batch": torch.tensor(logs.num_actions),
        }
        return {name: tensor.to(self.model.device) for name, tensor in made.items()}


def _trainer(model: Any, adapter: Any) -> Any:
    """A GRPOTrainer that will never generate, so its data set, tokenizer and reward are made up."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    on_gpu = model.device.type == "cuda"
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="trainer-trl-"),
        use_cpu=not on_gpu,
        bf16=on_gpu,
        gradient_checkpointing=False,
        per_device_train_batch_size=2,
        num_generations=2,
        loss_type="cispo",
        epsilon_high=UNBOUNDED,
        beta=0.0,
        temperature=1.0,
        report_to=[],
    )
    words = Tokenizer(WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))  # noqa: S106 - a token of text
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=_no_reward,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "<eos>"}] * 2),
        peft_config=adapter,
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>"),  # noqa: S106 - a token of text
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def _no_reward(completions: list[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


class Verl:
    """`FSDPEngineWithLMHead.forward_backward_batch` with `ppo_loss`, on a model that no FSDP is laid around.

    Padded, as it computes where flash-attn is missing; or packed on one axis with `attention_mask=None`, for which
    transformers builds a square mask that keeps traces apart, and which needs no flash-attn either.
    """

    def __init__(self, model: Any, logs: Logs, *, by_length: bool, packs: bool = False, rows: int = ROWS) -> None:
        from verl.utils import tensordict_utils
        from verl.workers.utils.losses import ppo_loss

        self.model, self._loss = model, ppo_loss
        self.name = "verl, packed, square mask" if packs else f"verl, padded, {order(by_length)}"
        self._engine, self._settings = _engine(model), _actor_settings()
        self._tools, self._packs, self._rows = tensordict_utils, packs, rows
        given = chunks(logs, rows, by_length=by_length)
        self._sequences = [sequence for chunk in given for sequence in chunk]
        self._columns = self._laid_out(logs)
        lengths = [[len(sequence.token_ids) for sequence in chunk] for chunk in given]
        self.num_slots = sum(sum(each) if packs else max(each) * len(each) for each in lengths)

    def step(self) -> float:
        """All micro-batches, gradients summed: "token-mean" divides by the count of the whole batch."""
        self.model.zero_grad(set_to_none=True)
        plain = {
            "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": self._rows,
            "use_remove_padding": self._packs,
            "temperature": 1.0,
            "global_batch_size": len(self._sequences),
        }
        data = self._tools.get_tensordict(dict(self._columns), plain)
        told = self._engine.forward_backward_batch(data, self._compute)
        return float(sum(told["loss"]))

    def _compute(self, model_output: Any, data: Any, dp_group: Any = None) -> Any:
        return self._loss(self._settings, model_output, data, dp_group)

    def _laid_out(self, logs: Logs) -> dict[str, Tensor]:
        starts = [_prompt_length(sequence) for sequence in self._sequences]
        parts = list(zip(self._sequences, starts, strict=True))
        actions = [sequence.action_mask[start:].astype(np.int64) for sequence, start in parts]
        columns: dict[str, list[Any]] = {
            "input_ids": [sequence.token_ids.astype(np.int64) for sequence in self._sequences],
            "position_ids": [np.arange(len(sequence.token_ids)) for sequence in self._sequences],
            "prompts": [sequence.token_ids[:start].astype(np.int64) for sequence, start in parts],
            "responses": [sequence.token_ids[start:].astype(np.int64) for sequence, start in parts],
            "response_mask": actions,
            "loss_mask": actions,
            "old_log_probs": [np.nan_to_num(sequence.behavior_logprobs[start:]) for sequence, start in parts],
            "advantages": [
                np.full(len(sequence.token_ids) - start, logs.advantage(sequence.trace_id), dtype=np.float32)
                for sequence, start in parts
            ],
        }
        return {
            name: torch.nested.as_nested_tensor([torch.from_numpy(row) for row in rows], layout=torch.jagged)
            for name, rows in columns.items()
        }


def _engine(model: Any) -> Any:
    """The engine of verl around a model that is there, without its own loading, sharding and optimizer."""
    from verl.workers.engine.fsdp import transformer_impl

    if not torch.distributed.is_initialized():  # It sums the count of tokens over the ranks, here one.
        meeting = Path(tempfile.mkdtemp(prefix="trainer-verl-")) / "store"
        torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=0, world_size=1)
    # verl knows no platform without an accelerator, and asks for its device by this name.
    transformer_impl.get_device_id = lambda: "cpu"
    engine = object.__new__(transformer_impl.FSDPEngineWithLMHead)
    fixed = {
        "module": model,
        "engine_config": SimpleNamespace(use_no_sync_for_gradient_accumulation=False),
        "ulysses_device_mesh": None,
        "ulysses_sequence_parallel_size": 1,
        "use_ulysses_sp": False,
        "pad_to_length": False,
        "scaler": None,
        "_autocast_dtype": torch.float32,
    }
    for name, value in fixed.items():
        setattr(engine, name, value)
    return engine


def _actor_settings() -> Any:
    from verl.workers.config import ActorConfig, PolicyLossConfig

    return ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        clip_ratio=UNBOUNDED,
        clip_ratio_low=1.0,
        clip_ratio_high=UNBOUNDED,
        policy_loss=PolicyLossConfig(loss_mode="cispo"),
    )


def _prompt_length(sequence: LoggedSequence) -> int:
    return int(np.flatnonzero(sequence.action_mask)[0])
