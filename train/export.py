"""The folder of a new policy version: what transformers, peft and a server load as it is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")

_MANIFEST_COLUMNS = ("step", "trace_id", "trace_revision", "sequence_index", "reward", "drift", "in_trust")


def export_policy(checkpoint: Path, folder: Path, *, base: Path, replays: pa.Table, about: Mapping[str, Any]) -> None:
    """Write `folder` from the last checkpoint's adapter, the base's tokenizer and what the run recorded.

    `about` are the facts of the model card, in order. The folder appears whole or not at all; one that an interrupted
    run left is written again.
    """
    temporary = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for source, names in ((checkpoint, _ADAPTER_FILES), (base, _TOKENIZER_FILES)):
        for name in names:
            if (source / name).is_file():
                shutil.copyfile(source / name, temporary / name)
    pq.write_table(replays.select(list(_MANIFEST_COLUMNS)), temporary / MANIFEST)
    (temporary / "README.md").write_text(_card(base, about))
    commit(temporary, folder)


def _card(base: Path, about: Mapping[str, Any]) -> str:
    """A model card; its front matter is what peft and model hubs read."""
    lines = (
        "---",
        f"base_model: {base.name}",
        "library_name: peft",
        "---",
        "",
        f"# {about['policy_version']}",
        "",
        f"A LoRA adapter over `{base.name}`, trained by tracemill on logged traces. `{MANIFEST}` lists them.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name.replace('_', ' ')} | {value} |" for name, value in about.items()),
    )
    return "\n".join(lines) + "\n"
