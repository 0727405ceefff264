"""A model over several processes by FSDP2: each holds a part of every weight, and gradients are summed, not averaged.

Coefficients hold every normaliser already, 1/B and 1/T of the whole batch, so that a mean over processes would divide
once too often.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from schemas.errors import CheckpointError
from train.ranks import Ranks

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def shard(root: torch.nn.Module, model: PreTrainedModel, ranks: Ranks, *, dtype: torch.dtype | None) -> None:
    """Shard `root`, whose forward pass is the only one that will run, and each of the model's layers in it.

    With `dtype` the weights of layers are gathered in that type for the forward and backward pass; gradients are summed
    in float32.
    """
    mesh = init_device_mesh(model.device.type, (ranks.size,))
    for module in (*layers(model), root):
        # What is left to the root is embedding, last norm and head, which stay in their own type as in one process.
        own = None if module is root else dtype
        precision = MixedPrecisionPolicy(param_dtype=own, reduce_dtype=torch.float32, cast_forward_inputs=False)
        fully_shard(module, mesh=mesh, mp_policy=precision)
        sharded = cast("FSDPModule", module)
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)


def layers(model: PreTrainedModel) -> list[torch.nn.Module]:
    """The decoder layers of the model, first to last; refused when it does not say which they are."""
    found = getattr(model.base_model, "layers", None)
    if not isinstance(found, torch.nn.ModuleList):
        raise CheckpointError(
            f"{type(model).__name__}: no list of layers in its trunk; expected `model.layers`, as decoders of "
            "transformers have it; train it in one process, without activation checkpointing"
        )
    return list(found)


def sums_gradients(root: torch.nn.Module, now: bool) -> None:
    """Whether the next backward pass ends with the sum over the ranks: only the last of an update does."""
    if isinstance(root, FSDPModule):
        root.set_requires_gradient_sync(now)


def whole(tensor: Tensor) -> Tensor:
    """A weight, gradient or moment as one tensor on every rank, detached, on the CPU; a copy that nobody shares."""
    tensor = tensor.detach()
    if isinstance(tensor, DTensor):
        tensor = tensor.full_tensor()
    return tensor.cpu().clone()


def placed_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor laid out as `like` is, each rank keeping its own part."""
    if isinstance(like, DTensor):
        return distribute_tensor(tensor.to(like.device_mesh.device_type), like.device_mesh, like.placements)
    return tensor.to(like.device)


def whole_state(module: torch.nn.Module, *, only: str = "") -> dict[str, Tensor]:
    """The state of a module by name, as far as names contain `only`, each tensor whole; every rank has to ask.

    What is one weight under two names, as a head that is tied to its embedding, stays one.
    """
    found: dict[int, Tensor] = {}
    state = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if only in name:
            if id(tensor) not in found:
                found[id(tensor)] = whole(tensor)
            state[name] = found[id(tensor)]
    return state


def clip_to_norm(parameters: Mapping[str, torch.nn.Parameter], bound: float) -> Any:
    """The norm of all gradients, which are scaled down to `bound` where it is larger; the same on every rank."""
    norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), bound)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
