"""LoRA adapters: read from safetensors over a base model, made anew, written so that peft and servers load them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from schemas.errors import CheckpointError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"

ALL_LINEAR = "all-linear"
"""What peft calls every linear layer but the head."""

_NAME = "default"
"""Name under which peft holds the one adapter of a model; peft leaves it out of saved files."""


def read_adapter(model: PreTrainedModel, folder: Path) -> PeftModel:
    """`model` with the adapter of `folder` over it, frozen and not merged.

    Refused: a folder without config or safetensors, another kind than LoRA, an adapter of the head or of whole
    modules, and weights that do not fit this base model one for one.
    """
    from peft import LoraConfig, PeftModel, set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder}: no {name}; expected a peft LoRA adapter saved as safetensors; check the path, or save the "
                "adapter again"
            )
    stated = json.loads((folder / ADAPTER_CONFIG).read_text())
    _require_lora(folder, stated)
    wrapped = None
    try:
        wrapped = PeftModel(model, LoraConfig.from_pretrained(folder, inference_mode=True), _NAME)
        weights = load_file(folder / ADAPTER_WEIGHTS, device=str(model.device))
        result = set_peft_model_state_dict(wrapped, weights, _NAME)
        _require_all(folder, list(result.unexpected_keys), [key for key in result.missing_keys if "lora_" in key])
    except (RuntimeError, ValueError, KeyError, SafetensorError) as error:
        if wrapped is not None:
            wrapped.unload()
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{folder}: the adapter does not fit the base model ({_first_line(error)}); expected LoRA weights of the "
            "same base; name the right base model or adapter"
        ) from error
    # Layers are made in training mode, in which an adapter with dropout would score at random.
    return wrapped.eval()


def new_adapter(model: PreTrainedModel, *, rank: int, alpha: float, targets: Sequence[str], seed: int) -> PeftModel:
    """`model` with a fresh LoRA over it that changes nothing yet; its random half comes from `seed`."""
    from peft import LoraConfig, get_peft_model

    modules = ALL_LINEAR if tuple(targets) == (ALL_LINEAR,) else list(targets)
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=modules, task_type="CAUSAL_LM")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, config, _NAME).eval()
        except ValueError as error:
            raise CheckpointError(
                f"no module named {', '.join(targets)} to put an adapter on ({_first_line(error)}); expected names of "
                "linear layers of the base model; mend train.lora.targets"
            ) from error


def trainable(wrapped: PeftModel) -> list[tuple[str, torch.nn.Parameter]]:
    """The LoRA weights by name, in a fixed order, with gradients on; everything else is frozen."""
    found = []
    for name, parameter in wrapped.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            found.append((name, parameter))
    return sorted(found, key=lambda item: item[0])


def save_adapter(
    wrapped: PeftModel, folder: Path, *, base: Path, state: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Write the adapter's config and weights; `base` is the model that peft finds under its name.

    `state` has the whole tensors where those of `wrapped` are spread over several processes.
    """
    config = wrapped.peft_config[_NAME]
    config.base_model_name_or_path = str(base)
    wrapped.save_pretrained(
        folder, safe_serialization=True, save_embedding_layers=False, **({} if state is None else {"state_dict": state})
    )
    (folder / "README.md").unlink(missing_ok=True)


def _require_all(folder: Path, unknown: Sequence[str], missing: Sequence[str]) -> None:
    if unknown or missing:
        raise CheckpointError(
            f"{folder}: {len(missing)} LoRA weights are missing and {len(unknown)} unknown, such as "
            f"{[*missing, *unknown][0]}; expected one pair for each target module; name the right base model or adapter"
        )


def _require_lora(folder: Path, stated: dict[str, Any]) -> None:
    if stated.get("peft_type") != "LORA":
        raise CheckpointError(
            f"{folder}: a {stated.get('peft_type')} adapter; expected LORA; merge it into a base model"
        )
    targets = stated.get("target_modules")
    named = [targets] if isinstance(targets, str) else list(targets or [])
    if stated.get("modules_to_save") or any("lm_head" in name or "embed" in name for name in named):
        raise CheckpointError(
            f"{folder}: adapts the head, the embedding or whole modules (target_modules {named}, modules_to_save "
            f"{stated.get('modules_to_save')}); expected LoRA on inner layers only, because log-probabilities are "
            "computed from the base model's head; merge the adapter into a base model"
        )


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 300 else f"{text[:300]}..."
