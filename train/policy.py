"""A language model in memory, and the adapter that makes a policy version of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from schemas.errors import CheckpointError
from train import adapters, attention, sharding
from train.logprobs import ActionTokens, BehaviorStates, TokenScores, action_tokens, token_logprobs
from train.packing import Pack, Trace
from train.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from train.registry import Weights

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number types that a policy may be held in, by the names that settings use."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What a policy makes of the A action tokens of a pack, sequence after sequence."""

    tokens: TokenScores
    """Its log-probabilities, and what else was asked for."""
    hidden: Tensor | None = None
    """[A, H] the state that predicts each token, a constant: what a critic on the trunk reads; None unless asked."""
    sampled_ids: Tensor | None = None
    """[A] the tokens themselves."""
    values: Tensor | None = None
    """[A] what a critic says of each token; None without one."""
    asked_ids: Tensor | None = None
    """[A, K] other tokens that were asked about; None unless there were some."""
    asked_logprobs: Tensor | None = None
    """[A, K] what the behavior policy said of them."""

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
        """[A, K] of the recorded tokens, [A, 1] sum q log p for "expected" ones; None unless asked for."""
        expected = self.tokens.expected_logprobs
        return self.tokens.recorded_logprobs if expected is None else expected[:, None]

    def detached(self) -> Scores:
        """The same numbers without their graph."""
        return Scores.of_columns({name: value.detach() for name, value in self.columns().items()})

    def emptied(self) -> Scores:
        """The same of no token: shapes and number types are left."""
        return Scores.of_columns({name: value.detach()[:0] for name, value in self.columns().items()})

    def columns(self) -> dict[str, Tensor]:
        """Every tensor that is there, by name."""
        named = {each.name: getattr(self.tokens, each.name) for each in fields(TokenScores)}
        named |= {each.name: getattr(self, each.name) for each in fields(Scores) if each.name != "tokens"}
        return {name: value for name, value in named.items() if value is not None}

    @staticmethod
    def of_columns(columns: Mapping[str, Tensor]) -> Scores:
        """The scores that have these tensors; the inverse of `columns`."""
        names = {each.name for each in fields(TokenScores)}
        rest: Any = {name: columns.get(name) for name in names}
        tokens = TokenScores(**rest)
        return Scores(tokens, **{name: value for name, value in columns.items() if name not in names})


class _Scorer(torch.nn.Module):
    """The model and its head as one forward pass: what is sharded is whole only inside it."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, pack: Pack, tokens: ActionTokens, context: AbstractContextManager[Any], **asked: Any
    ) -> tuple[Tensor | None, ...]:
        """The fields of `TokenScores`, and the states [A, H] that they were read from."""
        with context:
            hidden = _hidden_states(self.model, pack)[tokens.slots]
        head = self.model.get_output_embeddings()
        scores = token_logprobs(
            hidden,
            head.weight,
            getattr(head, "bias", None),
            tokens,
            **asked,
        )
        return (*(getattr(scores, each.name) for each in fields(TokenScores)), hidden)


class Policy:
    """Base weights, loaded once, and the adapter that makes a version of them; or weights that are trained whole.

    Weights come from safetensors alone; nothing is ever unpickled. `use` changes adapters without loading the base
    again, and the order of adapters changes nothing.
    """

    def __init__(self, model: PreTrainedModel, base: Path) -> None:
        self.model = model
        self.base = base
        self.wrapped: Any = None
        """The peft model around `model` while an adapter is in use."""
        self.half_trunk = False
        """Whether float32 weights are used in bfloat16 up to the head, so that small steps are not lost."""
        self.is_whole = False
        """Whether all weights are trained, and not an adapter."""
        self._scorer: _Scorer | None = None

    @staticmethod
    def load(base: Path, *, dtype: str = "float32", device: str = "cpu") -> Policy:
        """The base model of that folder, ready to score packs."""
        attention.register()
        return Policy(_load(base, DTYPES[dtype], device), base)

    def twin(self) -> Policy:
        """Another policy over the very same base weights, whose adapters are its own; before any adapter is in use."""
        if self.wrapped is not None or self.is_whole:
            raise AssertionError("an adapter lies in the modules that would be shared, or they are trained")
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

    def knows(self, trace: Trace) -> bool:
        """Whether the model has all tokens of a trace in its vocabulary."""
        return all(
            int(ids.min()) >= 0 and int(ids.max()) < self.vocabulary_size
            for sequence in trace
            for ids in (sequence.token_ids, sequence.top_token_ids)
            if ids is not None and ids.size
        )

    def become(self, weights: Weights) -> None:
        """Be that version from now on: its base is loaded where it is another one than that in memory."""
        self.drop_adapter()
        if weights.base != self.base:
            self.model, self._scorer = _load(weights.base, self.model.dtype, self.device.type), None
            self.base = weights.base
        self.use(weights.adapter)

    def load_state(self, folder: Path) -> None:
        """Have the weights of a checkpoint of the whole model, over the same base."""
        self.drop_adapter()
        self.model, self._scorer = _load(folder, self.model.dtype, self.device.type), None

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
            self.wrapped = self._scorer = None

    def train_whole(self) -> None:
        """Let every weight be trained, those of an adapter in use added to the base for good."""
        if self.model.dtype != torch.float32:
            raise AssertionError("weights that are trained are held in float32, or small steps would be lost")
        if self.wrapped is not None:
            self.model = self.wrapped.merge_and_unload()
            self.wrapped = self._scorer = None
        self.is_whole = True

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """What is trained, by name in a fixed order, with gradients on: the adapter, or every weight."""
        if not self.is_whole:
            return dict(adapters.trainable(self.wrapped))
        for parameter in self.model.parameters():
            parameter.requires_grad_(True)
        return dict(sorted(self.model.named_parameters()))

    def save(self, folder: Path, ranks: Ranks = ALONE) -> None:
        """Write what is trained into a folder that is there, as peft or transformers load it; all ranks call it."""
        root, only = (self.model, "") if self.is_whole else (self.wrapped, "lora_")
        state = sharding.whole_state(root, only=only) if ranks.size > 1 else None
        if not ranks.is_first:
            return
        if self.is_whole:
            self.model.save_pretrained(folder, state_dict=state)
        else:
            adapters.save_adapter(self.wrapped, folder, base=self.base, state=state)

    def recompute_activations(self) -> None:
        """Keep only the input of each layer for the way back, and run the layer again there."""
        for layer in sharding.layers(self.model):
            # Not the layer but its forward pass is replaced: its name, and the hooks around it, stay as they are.
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)

    def shard(self, ranks: Ranks) -> None:
        """Spread the weights over the ranks; from then on all of them have to score together."""
        if ranks.size > 1:
            dtype = torch.bfloat16 if self.half_trunk else None
            sharding.shard(self.scorer, self.model, ranks, dtype=dtype)

    @property
    def scorer(self) -> torch.nn.Module:
        """The module whose forward pass scores a pack."""
        if self._scorer is None:
            self._scorer = _Scorer(self.model)
        return self._scorer

    def hidden_states(self, pack: Pack) -> Tensor:
        """[N, H] final hidden states of the slots of `pack`, after the last norm."""
        with self._context():
            return _hidden_states(self.model, pack)

    def score(
        self,
        pack: Pack,
        *,
        with_entropies: bool = False,
        with_hidden: bool = False,
        behavior: BehaviorStates | None = None,
        recorded_ids: Tensor | None = None,
    ) -> Scores:
        """What the policy makes of the action tokens of `pack`; with gradients, unless the caller turned them off.

        `behavior` is what whoever wrote them made of them, for expectations under it, `recorded_ids` [A, K] are other
        tokens to be scored at each place.
        """
        tokens = action_tokens(pack).to(self.device)
        asked = {"behavior": behavior, "recorded_ids": recorded_ids, "with_entropies": with_entropies}
        *columns, hidden = self.scorer(pack, tokens, self._context(), **asked)
        return Scores(TokenScores(*columns), hidden.detach() if with_hidden else None, tokens.token_ids)

    def head(self, hidden: Tensor) -> BehaviorStates:
        """These states [A, H] with this policy's head, as what it makes of the places before A tokens."""
        head = self.model.get_output_embeddings()
        return BehaviorStates(hidden, head.weight.detach(), getattr(head, "bias", None))

    def _context(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.half_trunk else nullcontext()


def _load(base: Path, dtype: torch.dtype, device: str) -> PreTrainedModel:
    """The model of that folder with our attention, frozen."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    if not (base / "config.json").is_file() or not list(base.glob("*.safetensors")):
        raise CheckpointError(
            f"{base}: no model there; expected a transformers folder with config.json and safetensors; check "
            "model.base, or import the model first"
        )
    logging.disable_progress_bar()
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            base,
            dtype=dtype,
            attn_implementation=attention.VARLEN,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"{base}: transformers cannot load it ({error}); expected a causal language model whose attention can "
            "be replaced; import the model again, or use another"
        ) from error
    missing = sorted(found["missing_keys"])
    if missing:
        raise CheckpointError(
            f"{base}: {len(missing)} weights are missing, such as {missing[0]}, and would be random; expected all of "
            f"{type(model).__name__}; copy the folder again"
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    placed: PreTrainedModel = model.to(device).eval()
    return placed


def _hidden_states(model: PreTrainedModel, pack: Pack) -> Tensor:
    """No mask and no cache: with either, transformers would not see that the slots are several sequences."""
    device = model.get_input_embeddings().weight.device
    trunk = model.base_model(
        input_ids=pack.token_ids[None].to(device),
        position_ids=pack.position_ids[None].to(device),
        attention_mask=None,
        use_cache=False,
        pack_layout=pack.layout,
    )
    hidden: Tensor = trunk.last_hidden_state[0]
    return hidden
