"""The folder of a new policy version: what transformers, peft and a server load as it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.settings import dotted
from train.commit import commit

MANIFEST = "trace_manifest.parquet"
"""File of a policy's folder that lists the traces it was trained on."""

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
_WEIGHT_FILES = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
)

_MANIFEST_COLUMNS = ("step", "trace_id", "trace_revision", "sequence_index", "reward", "drift", "in_trust")


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What the model card says."""

    version: str
    base: Path
    is_whole: bool
    facts: Mapping[str, Any]
    """Where the version comes from: run, parent, step, method, times."""
    settings: Mapping[str, Any]
    """All that decided the updates."""
    data: Sequence[Mapping[str, Any]]
    """The traces by the version that wrote them, as train/data_window has them."""
    updates: Sequence[Mapping[str, Any]]
    """The figures of every update."""


def export_policy(checkpoint: Path, folder: Path, *, base: Path, replays: pa.Table, card: Card) -> None:
    """Write `folder` from a checkpoint's weights, the base's tokenizer and what the run recorded.

    The folder appears whole or not at all; one that an interrupted run left is written again.
    """
    temporary = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for source, patterns in ((base, _TOKENIZER_FILES), (checkpoint, _WEIGHT_FILES)):
        for pattern in patterns:
            for file in sorted(source.glob(pattern)):
                shutil.copyfile(file, temporary / file.name)
    pq.write_table(replays.select(list(_MANIFEST_COLUMNS)), temporary / MANIFEST)
    (temporary / "README.md").write_text("\n".join(_lines(card)) + "\n")
    commit(temporary, folder)


def _lines(card: Card) -> Iterator[str]:
    """The model card; its front matter is what peft and model hubs read."""
    kind = "All weights" if card.is_whole else "A LoRA adapter"
    yield from ("---", f"base_model: {card.base.name}")
    yield from (f"library_name: {'transformers' if card.is_whole else 'peft'}", "---", "", f"# {card.version}", "")
    yield f"{kind} over `{card.base.name}`, trained by tracemill on logged traces. `{MANIFEST}` lists them."
    yield from ("", "## Where it comes from", "", *_table(card.facts))
    yield from ("", "## What it was trained on", "")
    yield from _columns(card.data, empty="No trace.")
    yield from ("", "## How far it moved", "")
    shown = ("update", "num_in_trust", "num_traces", "mean_drift", "loss", "grad_norm", "mean_entropy")
    ends = card.updates[:1] if len(card.updates) < 2 else (card.updates[0], card.updates[-1])
    yield "First and last update; drift is in nats a token, before the update's own step."
    yield ""
    yield from _columns([{name: figures.get(name) for name in shown} for figures in ends], empty="No update.")
    yield from ("", "## How good it is", "")
    yield "NOT MEASURED. No evaluation is part of training: measure it before it serves."
    yield from ("", "## Settings", "", "| | |", "|---|---|")
    yield from (f"| `{name}` | {_cell(value)} |" for name, value in dotted(card.settings, "train.").items())


def _table(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, value in facts.items():
        yield f"| {name.replace('_', ' ')} | {_cell(value)} |"


def _columns(rows: Sequence[Mapping[str, Any]], *, empty: str) -> Iterator[str]:
    if not rows:
        yield empty
        return
    yield f"| {' | '.join(name.replace('_', ' ') for name in rows[0])} |"
    yield f"|{'---|' * len(rows[0])}"
    for row in rows:
        yield f"| {' | '.join(_cell(value) for value in row.values())} |"


def _cell(value: Any) -> str:
    """One value in a cell of Markdown, which no name in a log can break out of."""
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return "".join(f"\\{sign}" if sign in "|`<>[]*_" else sign for sign in text if sign.isprintable())
