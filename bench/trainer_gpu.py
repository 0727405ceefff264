"""What a step costs on one GPU: tokens/s, MFU and peak memory at 1.5B-class dimensions, by context, LoRA and full.

    bash bench/gpu.sh [--minutes 7] [--steps 2] [--device cuda|cpu]

Random weights in the dimensions of Qwen2.5-1.5B, no network. A step is forward pass, loss and backward pass on six
traces, the longest as long as the context, the others 0.6 to 0.1 of it: the optimizer's step and its state are not in
it. Full weights are held in float32 and used in bfloat16, LoRA (rank 16, all linear layers) lies over bfloat16. From
16k tokens on, both sides compute activations again in the backward pass. TRL, where it is installed, takes the same
traces in length buckets, so many at a time as a pack of ours holds at most. MFU counts the arithmetic of real tokens,
once (`train.speed`), over the device's peak in bfloat16: 989 TFLOP/s for an H100 or H200, as NVIDIA's data sheets say.
A setting that runs out of memory or of time is told as such. Sides run one after the other: the GPU is theirs alone.

Without a GPU the same code runs at a small size on CPU, which says that it runs and nothing else.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
import trainer_peers
from trainer_work import Logs, Ours, Shape, Side, logs_of, peak_mib

from train import attention
from train.packing import build_packs
from train.speed import known_peak, mfu, shape_of, update_flops

LARGE = Shape(vocabulary=151_936, hidden=1536, layers=28, heads=12, key_value_heads=2, intermediate=8960)
SMALL = Shape(vocabulary=4096, hidden=128, layers=2, heads=4, key_value_heads=2, intermediate=512)
CONTEXTS = {"cuda": (4096, 8192, 16_384, 32_768), "cpu": (128, 256, 512, 1024)}
BUDGET = {"cuda": 16_384, "cpu": 512}
"""Slots of a pack; a longer trace has one to itself."""
LADDER = (1.0, 0.6, 0.4, 0.3, 0.2, 0.1)
"""Lengths of the traces as shares of the context; the mean of a step is 0.43 of it. Convention, untested."""
PROMPT_SHARE = 0.3
RANK, ALPHA = 16, 32
AGREES = {"cuda": 0.05, "cpu": 1e-4}
"""Largest relative difference of losses and gradient norms at which a ratio is told: bfloat16 against float32."""


@dataclass(frozen=True)
class Setting:
    """One row: how long the longest trace is, what is trained, and where."""

    context: int
    is_whole: bool
    device: str

    @property
    def recomputes(self) -> bool:
        """Whether activations are computed again."""
        return self.context >= BUDGET[self.device]

    @property
    def rows(self) -> int:
        """Traces that fit into a pack of ours when all are as long as the context."""
        return max(1, BUDGET[self.device] // self.context)

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are held in."""
        return torch.bfloat16 if self.device == "cuda" and not self.is_whole else torch.float32

    def logs(self, vocabulary: int) -> Logs:
        """The six traces."""
        whole = [round(share * self.context) for share in LADDER]
        parts = [(round(PROMPT_SHARE * length), length - round(PROMPT_SHARE * length)) for length in whole]
        return logs_of(parts, vocabulary)


@dataclass(frozen=True)
class Measured:
    """A step of one side: seconds, peak memory in GiB, loss, norm of the gradient."""

    seconds: float
    peak_gib: float
    loss: float
    grad_norm: float

    def differs(self, other: Measured) -> float:
        """The larger relative difference of loss and gradient norm."""
        pairs = ((self.loss, other.loss), (self.grad_norm, other.grad_norm))
        return max(abs(own - theirs) / abs(own) for own, theirs in pairs)


def ours(setting: Setting, shape: Shape) -> Side:
    """Our side of a setting."""
    model = shape.model(attention.VARLEN, device=setting.device, dtype=setting.dtype)
    side = Ours(model, setting.logs(shape.vocabulary), budget=BUDGET[setting.device])
    side.policy.half_trunk = setting.is_whole and setting.device == "cuda"
    if not setting.is_whole:
        side.policy.use_new(rank=RANK, alpha=ALPHA, targets=("all-linear",), seed=7)
        side.policy.trainable()
    if setting.recomputes:
        side.policy.recompute_activations()
    return side


def theirs(setting: Setting, shape: Shape) -> Side:
    """TRL's side of a setting."""
    from peft import LoraConfig

    lora = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM")
    model = shape.model("sdpa", device=setting.device, dtype=setting.dtype)
    if setting.recomputes:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return trainer_peers.Trl(
        model,
        setting.logs(shape.vocabulary),
        by_length=True,
        rows=setting.rows,
        adapter=None if setting.is_whole else lora,
    )


def same_adapters(model: Any) -> None:
    """Give the LoRA weights the same random numbers on each side, neither factor 0, so that all gradients count."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.02 * torch.randn(parameter.shape))


def measure(side: Side, device: str, num_steps: int) -> Measured:
    """A step that warms up, then the median of some; on a GPU the peak has weights and gradients in it."""
    same_adapters(side.model)
    if device == "cpu":
        peak = peak_mib(side) / 1024
    else:
        torch.cuda.reset_peak_memory_stats()
        side.step()
    seconds, loss = [], math.nan
    for _ in range(num_steps):
        begun = _now(device)
        loss = side.step()
        seconds.append(_now(device) - begun)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
    gradients = [parameter.grad for parameter in side.model.parameters() if parameter.grad is not None]
    norm = float(torch.linalg.vector_norm(torch.stack([each.float().norm() for each in gradients])))
    return Measured(statistics.median(seconds), peak, loss, norm)


def _now(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def attempt(name: str, setting: Setting, shape: Shape, num_steps: int) -> Measured | str:
    """A side measured, or why not."""
    building = {"ours": ours, "TRL": theirs}[name]
    try:
        return measure(building(setting, shape), setting.device, num_steps)
    except torch.OutOfMemoryError:
        return "out of memory"
    finally:
        gc.collect()
        torch.cuda.empty_cache()  # Nothing happens where there is no GPU.


def flops(setting: Setting, shape: Shape) -> float:
    """FLOP of a step: of real tokens, whatever a side pads or computes twice."""
    with torch.device("meta"):
        model = shape.model(attention.VARLEN, device="meta", dtype=setting.dtype)
    counted = shape_of(model)
    if counted is None:
        raise AssertionError("the model is no mixture of experts")
    traces = [(sequence,) for sequence in setting.logs(shape.vocabulary).sequences]
    packs = build_packs(traces, token_budget=BUDGET[setting.device])
    return update_flops(counted, packs, is_whole=setting.is_whole)


def tell(name: str, setting: Setting, found: Measured | str, against: Measured | None, shape: Shape) -> None:
    """One line of the table."""
    kind = ("full" if setting.is_whole else "LoRA") + (", recomputed" if setting.recomputes else "")
    line = f"  {setting.context:>7,} {kind:<17} {name:<5}"
    if isinstance(found, str):
        print(f"{line} {found}", flush=True)
        return
    num_tokens = setting.logs(shape.vocabulary).num_tokens
    line += f" {num_tokens / found.seconds:10,.0f} tokens/s {found.peak_gib:7.2f} GiB"
    if setting.device == "cuda":
        device_name = torch.cuda.get_device_name()
        share = mfu(flops(setting, shape), found.seconds, known_peak(device_name, dtype="bfloat16"))
        line += f"   MFU {'unknown: no peak known for ' + device_name if share is None else format(share, '.1%')}"
    if against is not None:
        off = against.differs(found)
        ratio = f": ours is {found.seconds / against.seconds:.2f} times as fast"
        line += f"   differs by {off:.0e}{ratio if off < AGREES[setting.device] else ': no ratio'}"
    print(line, flush=True)


def compare(device: str, *, num_steps: int, minutes: float) -> None:
    """The table, the shortest context first."""
    begun, shape = time.monotonic(), LARGE if device == "cuda" else SMALL
    told = trainer_peers.missing("TRL")
    if told:
        print(told)
    names = ("ours",) if told else ("ours", "TRL")
    for context in CONTEXTS[device]:
        for is_whole in (False, True):
            setting, own = Setting(context, is_whole, device), None
            for name in names:
                late = time.monotonic() - begun > 60 * minutes
                found = "not measured: out of time" if late else attempt(name, setting, shape, num_steps)
                tell(name, setting, found, own if name != "ours" else None, shape)
                if name == "ours" and isinstance(found, Measured):
                    own = found


def main() -> None:
    """Measure on the GPU, or say that there is none and run at a small size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=7.0, help="no setting is begun after so many")
    parser.add_argument("--steps", type=int, default=2, help="steps of each side, after one that warms up")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    if given.device == "cuda":
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {LARGE}; peak memory with weights")
    else:
        torch.set_num_threads(1)
        print(
            f"NO GPU IS USED: a small size on CPU in float32, which shows that this runs, and says nothing of a GPU\n"
            f"torch {torch.__version__}, {SMALL}; CPU seconds of one thread; peak memory above start; no MFU"
        )
    compare(given.device, num_steps=given.steps, minutes=given.minutes)


if __name__ == "__main__":
    main()
