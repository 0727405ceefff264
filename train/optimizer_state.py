"""What an optimizer remembers of each parameter, as tensors that can be kept on disk by the parameter's name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from train.sharding import placed_like, whole


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, Tensor]:
    """Its state under `name/kind`, whole on every rank; empty before its first step."""
    return {
        f"{name}/{kind}": whole(value).contiguous()
        for name, parameter in parameters.items()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """Put such state back; `parameters` are in the optimizer's order. `KeyError` names a parameter that is not its."""
    numbers = {name: number for number, name in enumerate(parameters)}
    by_parameter: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, kind = key.rpartition("/")
        number = numbers[name]
        # A count of steps is one number on every rank; a moment lies as its parameter does.
        placed = tensor if tensor.ndim == 0 else placed_like(tensor, parameters[name])
        by_parameter.setdefault(number, {})[kind] = placed
    optimizer.load_state_dict({**optimizer.state_dict(), "state": by_parameter})
