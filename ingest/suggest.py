"""What to paste into the settings so that a log's numbers get their meaning: a block for each deployment in it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

UNSTATED = ("logprob_kind_unknown", "sampling_params_unknown", "version_unknown")
"""Codes that a [deployments] block can lift."""

_VERSIONED = re.compile(r"(.+)@(v?[0-9][\w.-]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a log says of one deployment, or of calls that name none."""

    name: str | None
    engine: str | None
    models: tuple[str, ...]
    """Served models, an empty name where a server names none."""
    codes: Collection[str]


def suggested(seen: Sequence[Seen]) -> str | None:
    """Blocks for the settings file; None when nothing is missing that settings could say.

    What only the operator of the server knows is left as a choice in a comment: nothing is guessed but where the
    version stands in a model's name.
    """
    blocks = [_block(one) for one in seen if set(UNSTATED) & set(one.codes)]
    return "\n\n".join(blocks) or None


def _block(seen: Seen) -> str:
    name = seen.name if seen.name is not None else _slug(seen.models)
    lines = [f"[deployments.{json.dumps(name, ensure_ascii=False)}]"]
    if seen.name is None and seen.models:
        lines.append(f"models = {json.dumps(_patterns(seen.models), ensure_ascii=False)}")
    if "logprob_kind_unknown" in seen.codes:
        lines.append(_kind(seen.engine))
    if "sampling_params_unknown" in seen.codes:
        lines.append(_switch(seen.engine))
    if "version_unknown" in seen.codes:
        lines.append(_version(seen.models))
    return "\n".join(lines)


def _kind(engine: str | None) -> str:
    if engine in (None, "vllm"):
        return (
            'logprobs_mode = "..."  # as the server was started: "processed_logprobs" with --logprobs-mode '
            'processed_logprobs, else "raw_logprobs"'
        )
    return 'logprob_kind = "..."  # "raw", "temperature" or "processed": docs/formats.md says which server gives which'


def _switch(engine: str | None) -> str:
    if engine == "sglang":
        return 'sampling_defaults = "..."  # "openai" if the server was started with --sampling-defaults openai'
    if engine not in (None, "vllm"):
        return (
            "# defaults = { temperature = 1.0, top_p = 1.0, top_k = -1, min_p = 0.0, repetition_penalty = 1.0 }  # if "
            "that is what the server takes for a parameter that a request leaves out"
        )
    return (
        'generation_config = "..."  # "vllm" if the server was started with --generation-config vllm; else leave it '
        "out and send temperature, top_p, top_k, min_p and repetition_penalty with each request"
    )


def _version(models: Sequence[str]) -> str:
    if models and all(_VERSIONED.fullmatch(model) for model in models):
        return f"version_pattern = {json.dumps('@(' + _tail(models) + ')$')}"
    return 'policy_version = "..."  # the one version that it serves; or version_pattern, if the model\'s name says it'


def _tail(models: Sequence[str]) -> str:
    is_plain = all(re.fullmatch(r".+@v[0-9]+", model, re.ASCII) for model in models)
    return "v[0-9]+" if is_plain else ".+"


def _patterns(models: Sequence[str]) -> list[str]:
    found = {f"{match.group(1)}@*" if (match := _VERSIONED.fullmatch(model)) else model for model in models}
    return sorted(found)


def _slug(models: Sequence[str]) -> str:
    first = models[0] if models else "my-server"
    return re.sub(r"[^\w-]+", "-", first.split("@")[0], flags=re.ASCII).strip("-") or "my-server"
