"""A language model in memory, and the adapter that makes a policy version of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from schemas.errors import CheckpointError
from train import adapters, attention
from train.logprobs import TokenScores, action_tokens, token_logprobs
from train.packing import Pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number types that a policy may be held in, by the names that settings use."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What a policy makes of the A action tokens of a pack, sequence after sequence."""

    tokens: TokenScores
    """Its log-probabilities, and what else was asked for."""
    hidden: Tensor | None = None
    """[A, H] the state that predicts each token, a constant: what a critic on the trunk reads; None unless asked."""

    @property
    def logprobs(self) -> Tensor:
        """[A] natural-log probabilities at the logged temperature, float32; carries the graph when there is one."""
        return self.tokens.logprobs

    @property
    def entropies(self) -> Tensor | None:
        """[A] entropy of each token's distribution in nats, a constant; None unless asked for."""
        return self.tokens.entropies

    @property
    def recorded_logprobs(self) -> Tensor | None:
        """[A, 1] sum q log p of each token, as a batch with "expected" records has it; None unless asked for."""
        expected = self.tokens.expected_logprobs
        return None if expected is None else expected[:, None]

    def detached(self) -> Scores:
        """The same numbers without their graph."""
        return joined([self])


def joined(parts: Sequence[Scores]) -> Scores:
    """The scores of several packs, one after the other, without their graph."""

    def column(name: str) -> Any:
        found = [getattr(part.tokens, name) for part in parts]
        return None if found[0] is None else torch.cat([values.detach() for values in found])

    scores = TokenScores(**{each.name: column(each.name) for each in fields(TokenScores)})
    hidden = [part.hidden for part in parts if part.hidden is not None]
    return Scores(scores, torch.cat(hidden) if hidden else None)


class Policy:
    """Base weights, loaded once, and the adapter that lies over them now.

    Weights come from safetensors alone; nothing is ever unpickled. `use` changes adapters without loading the base
    again, and the order of adapters changes nothing.
    """

    def __init__(self, model: PreTrainedModel, base: Path) -> None:
        self.model = model
        self.base = base
        self.wrapped: Any = None
        """The peft model around `model` while an adapter is in use."""

    @staticmethod
    def load(base: Path, *, dtype: str = "float32", device: str = "cpu") -> Policy:
        """The base model of that folder, ready to score packs."""
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        if not (base / "config.json").is_file() or not list(base.glob("*.safetensors")):
            raise CheckpointError(
                f"{base}: no model there; expected a transformers folder with config.json and safetensors; check "
                "model.base, or import the model first"
            )
        attention.register()
        logging.disable_progress_bar()
        try:
            model = AutoModelForCausalLM.from_pretrained(
                base,
                dtype=DTYPES[dtype],
                attn_implementation=attention.VARLEN,
                use_safetensors=True,
                local_files_only=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"{base}: transformers cannot load it ({error}); expected a causal language model whose attention can "
                "be replaced; import the model again, or use another"
            ) from error
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        return Policy(model.to(device).eval(), base)

    def twin(self) -> Policy:
        """Another policy over the very same base weights, whose adapters are its own; before any adapter is in use."""
        if self.wrapped is not None:
            raise AssertionError("an adapter lies in the modules that would be shared")
        shared = {id(tensor): tensor for tensor in (*self.model.parameters(), *self.model.buffers())}
        return Policy(copy.deepcopy(self.model, shared), self.base)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.model.get_input_embeddings().weight.device)

    @property
    def vocabulary_size(self) -> int:
        """Token ids that the model knows: 0 to this, exclusive."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @property
    def hidden_size(self) -> int:
        """Width of the states that the head reads."""
        return int(self.model.get_output_embeddings().weight.shape[1])

    def use(self, adapter: Path | None) -> None:
        """Score from now on with `adapter` over the base, or with the base alone.

        The adapter is not merged: against a server that merges, both score at the same floor (4e-6 nats a token and
        less, measured 2026-11-30), and neither is faster.
        """
        self.drop_adapter()
        if adapter is not None:
            self.wrapped = adapters.read_adapter(self.model, adapter)

    def use_new(self, **options: Any) -> None:
        """Lay a fresh adapter over the base; `options` are those of `adapters.new_adapter`."""
        self.drop_adapter()
        self.wrapped = adapters.new_adapter(self.model, **options)

    def drop_adapter(self) -> None:
        """The base alone again, bit for bit: its weights were never written to."""
        if self.wrapped is not None:
            self.model = self.wrapped.unload()
            self.wrapped = None

    def hidden_states(self, pack: Pack) -> Tensor:
        """[N, H] final hidden states of the slots of `pack`, after the last norm.

        No mask and no cache: with either, transformers would not see that the slots are several sequences.
        """
        trunk = self.model.base_model(
            input_ids=pack.token_ids[None].to(self.device),
            position_ids=pack.position_ids[None].to(self.device),
            attention_mask=None,
            use_cache=False,
            pack_layout=pack.layout,
        )
        hidden: Tensor = trunk.last_hidden_state[0]
        return hidden

    def score(
        self,
        pack: Pack,
        *,
        with_entropies: bool = False,
        with_hidden: bool = False,
        behavior_hidden: Tensor | None = None,
    ) -> Scores:
        """What the policy makes of the action tokens of `pack`; with gradients, unless the caller turned them off.

        `behavior_hidden` [A, H] are the states of whoever wrote them, for expectations under it.
        """
        tokens = action_tokens(pack).to(self.device)
        head = self.model.get_output_embeddings()
        hidden = self.hidden_states(pack)[tokens.slots]
        scores = token_logprobs(
            hidden,
            head.weight,
            getattr(head, "bias", None),
            tokens,
            with_entropies=with_entropies,
            behavior_hidden=behavior_hidden,
        )
        return Scores(scores, hidden.detach() if with_hidden else None)
