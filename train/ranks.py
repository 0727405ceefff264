"""The processes that train together under torchrun: who takes which pack, and how what each saw becomes one again.

One process is the same thing with nobody to talk to: then nothing here calls torch.distributed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed

from schemas.errors import TrainingError

PATIENCE = timedelta(minutes=10)
"""How long a rank waits for the others before it ends with an error. torch's own default for NCCL."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which process this is: number `number` of `size` that run the same program on the same batches."""

    number: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes: files, the lake, the console."""
        return self.number == 0

    def shares(self, loads: Sequence[int]) -> list[int]:
        """The rank that takes each of these loads: heaviest first, each to the rank that has least so far."""
        owners, carried = [0] * len(loads), [0] * self.size
        for index in sorted(range(len(loads)), key=lambda at: (-loads[at], at)):
            rank = min(range(self.size), key=lambda at: (carried[at], at))
            owners[index] = rank
            carried[rank] += loads[index]
        return owners

    def joined(self, own: Sequence[Tensor], owners: Sequence[int], lengths: Sequence[int]) -> Tensor:
        """The rows of all packs in pack order, on every rank.

        `own` are the tensors [length, ...] of this rank's packs, at least one, which may be empty; `owners` and
        `lengths` say of every pack whose it is and how many rows it has, and are the same on all ranks.
        """
        if self.size == 1:
            return torch.cat(list(own))
        counts = [
            sum(n for n, owner in zip(lengths, owners, strict=True) if owner == rank) for rank in range(self.size)
        ]
        padded = own[0].new_zeros((max(counts), *own[0].shape[1:]))
        padded[: counts[self.number]] = torch.cat(list(own))
        received = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(received, padded)
        taken, parts = [0] * self.size, []
        for owner, length in zip(owners, lengths, strict=True):
            parts.append(received[owner][taken[owner] : taken[owner] + length])
            taken[owner] += length
        return torch.cat(parts)

    def sum_(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over the ranks."""
        if self.size > 1:
            for tensor in tensors:
                distributed.all_reduce(tensor)

    def told(self, number: float) -> float:
        """The first rank's number, on every rank: what a clock or a disk said must be the same for all."""
        if self.size == 1:
            return number
        box = torch.tensor([number], dtype=torch.float64)
        distributed.broadcast(box, src=0, group=distributed.group.WORLD)
        return float(box[0])

    def wait(self) -> None:
        """Go on when all ranks are here: what the first one wrote is then there for the others."""
        if self.size > 1:
            distributed.barrier(group=distributed.group.WORLD)


ALONE = Ranks()
"""One process."""


def under_torchrun() -> bool:
    """Whether this process is one of several that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(device: str) -> Ranks:
    """Which of torchrun's processes this is, or the only one; on CUDA each takes the device of its local rank."""
    if not under_torchrun():
        return ALONE
    if not distributed.is_initialized():
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        try:
            distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise TrainingError(
                f"rank {os.environ.get('RANK')}: cannot meet the other ranks at {os.environ.get('MASTER_ADDR')}:"
                f"{os.environ.get('MASTER_PORT')} ({error}); expected all of them to be started by one torchrun; look "
                "at its rendezvous address"
            ) from error
    return Ranks(distributed.get_rank(), distributed.get_world_size())


def leave() -> None:
    """Take leave of the other ranks; alone, nothing happens."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
