"""What a log line cannot say and the settings must: which distribution, which policy version, which defaults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from ingest.call import Call
from ingest.directory import Directory
from ingest.patterns import compiled, search
from ingest.sampling import NEUTRAL, PARAMETERS, SamplingDefaults, parameters_of
from schemas.settings import Settings

StatedKind = Literal["raw", "temperature", "processed"]
LogprobKind = StatedKind | Literal["unknown"]

_KIND_OF_MODE: dict[str | None, LogprobKind] = {"raw_logprobs": "raw", "processed_logprobs": "processed"}
"""vLLM's --logprobs-mode. The two logits modes put numbers that are no log-probabilities into the same field, so
their kind is unknown. docs/formats.md."""


class Deployment(Settings):
    """One served deployment, by the name that its log lines carry: [deployments.NAME] of the settings file."""

    engine: str | None = None
    """Serving engine, such as vllm. Convention, untested: as the log says, unless stated."""

    logprobs_mode: Literal["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"] | None = None
    """The server's --logprobs-mode; no response says it. Convention, untested: unknown unless stated."""

    logprob_kind: StatedKind | None = None
    """Which distribution the log-probabilities are of, for servers other than vLLM: "raw" is before the temperature,
    "temperature" after it and before top-p and top-k, "processed" after everything. docs/formats.md says which
    server gives which. Convention, untested: unknown unless stated."""

    generation_config: Literal["vllm", "auto"] = "auto"
    """vLLM's --generation-config. With "vllm" a parameter that a request leaves out is neutral; with "auto", vLLM's
    default, it comes from the model's own file and is unknown here. vLLM 0.33, docs/formats.md."""

    sampling_defaults: Literal["openai", "model"] = "model"
    """SGLang's --sampling-defaults. With "openai" a parameter that a request leaves out is neutral; with "model",
    SGLang's default, it comes from the model's own file and is unknown here. SGLang 0.5.23, docs/formats.md."""

    defaults: SamplingDefaults = SamplingDefaults()
    """What the server takes for parameters that a request leaves out;
    wins over the server's switch. Convention, untested: unknown unless stated."""

    version_pattern: str | None = None
    """Regular expression over the served model's name whose first group is the policy version, such as "@(v[0-9]+)$",
    in the dialect of the package regex. One that needs more than a second for a name does not fit it. Convention,
    untested: the name says no version unless stated."""

    policy_version: str | None = None
    """The one policy version that the deployment serves. Convention, untested: unknown unless stated."""

    choice_selection: Literal["unknown", "first", "random"] = "unknown"
    """Which of several choices of one response was delivered: the first, or one drawn at random. What a ranker selects
    is a policy that nobody logged. Convention, untested: unknown unless stated."""

    names: tuple[str, ...] = ()
    """Further names by which lines call this deployment, such as LiteLLM's model_id.
    Convention, untested: none unless stated."""

    models: tuple[str, ...] = ()
    """Served models whose lines are of this deployment where they name none: exact names, or patterns such as
    "refund-desk*". Convention, untested: those that `version_pattern` fits unless stated."""

    vocabulary_size: int | None = Field(default=None, ge=1)
    """Token ids lie below it. Convention, untested: not checked unless stated."""

    tokenizer_sha256: str | None = None
    """SHA-256 of the tokenizer file that the ids belong to. Convention, untested: unknown unless stated."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.logprob_kind is None or self.logprobs_mode is None:
            return self
        if _KIND_OF_MODE.get(self.logprobs_mode) != self.logprob_kind:
            raise ValueError(
                f"logprob_kind {self.logprob_kind!r} and logprobs_mode {self.logprobs_mode!r} contradict each other; "
                "expected one of them: keep logprobs_mode for vLLM, logprob_kind for any other server"
            )
        return self

    @model_validator(mode="after")
    def _one_switch(self) -> Self:
        if self.generation_config != "auto" and self.sampling_defaults != "model":
            raise ValueError(
                f"generation_config {self.generation_config!r} and sampling_defaults {self.sampling_defaults!r} are "
                "both stated; expected the switch of one server: keep generation_config for vLLM, sampling_defaults "
                "for SGLang"
            )
        return self

    @model_validator(mode="after")
    def _one_source_of_versions(self) -> Self:
        if self.version_pattern is None:
            return self
        if self.policy_version is not None:
            raise ValueError(
                f"policy_version {self.policy_version!r} and version_pattern {self.version_pattern!r} are both stated; "
                "expected one source of versions: remove one"
            )
        try:
            groups = compiled(self.version_pattern).groups
        except ValueError as error:
            raise ValueError(f"version_pattern {error}") from error
        if groups < 1:
            raise ValueError(
                f"version_pattern {self.version_pattern!r} has no group; expected one around the version, such as "
                "@(v[0-9]+)$"
            )
        return self

    @property
    def is_neutral(self) -> bool:
        """Whether the server takes the neutral value for a parameter that a request leaves out."""
        return self.generation_config == "vllm" or self.sampling_defaults == "openai"

    @property
    def stated_kind(self) -> LogprobKind | None:
        """The kind of its log-probabilities; None where nothing is stated, unknown for logits."""
        if self.logprobs_mode is not None:
            return _KIND_OF_MODE.get(self.logprobs_mode, "unknown")
        return self.logprob_kind


_UNNAMED_WEIGHTS = "default"
"""What vLLM calls weights that nobody named. vLLM 0.33, docs/formats.md."""
_RULES = 2
"""Raised when these rules give the same settings another meaning: every trace is then put together again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a call's meaning depends on, as it was logged."""

    model: str
    deployment: str | None
    """The deployment that the line names."""
    landed_as: str | None = None
    """The deployment that was found when it landed, of rows of version 1, which kept no other name; else None."""
    engine: str | None = None
    versions: tuple[str, ...] = ()
    """The weights that sampled its tokens, as the server names them, each once."""
    kind: str | None = None
    """The kind of its log-probabilities, where the very field says it."""
    parameters: tuple[float | None, ...] = (None,) * len(PARAMETERS)
    """Temperature, top-p, top-k, min-p and repetition penalty; None where the request left one out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a call's numbers mean; None is unknown."""

    deployment: str | None
    engine: str | None
    logprob_kind: LogprobKind
    policy_version: str | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    vocabulary_size: int | None
    tokenizer_sha256: str | None
    choice_selection: Literal["unknown", "first", "random"]
    settings_sha256: str
    """Of the settings behind it, the rules of this module included."""


class Interpreter:
    """Gives calls their meaning by the deployment that each names, or that alone knows its model's name.

    A sampling parameter that is neither logged nor stated stays unknown: an unset one comes from a file beside the
    model, which is seldom neutral. A deployment that a line names and nobody described is unknown, not another one.
    """

    def __init__(self, deployments: Mapping[str, Deployment]) -> None:
        self._deployments = deployments
        # What only finds the deployment or the version counts by what it found: a name added to `models` touches no
        # trace that was found before.
        self._stated = {
            name: one.model_dump(mode="json", exclude_defaults=True, exclude={"names", "models", "version_pattern"})
            for name, one in deployments.items()
        }
        self._look_up = Directory(deployments)
        # Calls of one log say the same few things over and over.
        self.meaning_of = lru_cache(maxsize=4096)(self._interpret)
        self._found = lru_cache(maxsize=4096)(self._find)

    def __call__(self, call: Call) -> Meaning:
        """What the call's numbers mean."""
        return self.meaning_of(
            Facts(
                model=call.model,
                deployment=call.deployment,
                engine=call.engine,
                versions=tuple(dict.fromkeys(span.version for span in call.weight_spans)),
                kind=call.logprob_kind,
                parameters=parameters_of(call.sampling),
            )
        )

    def settings_sha256(self, deployment: str | None, landed_as: str | None, model: str) -> str:
        """What stands for the settings behind the meaning of such calls; another one means other settings."""
        return self._found(deployment, landed_as, model)[2]

    def _interpret(self, facts: Facts) -> Meaning:
        name, settings, settings_sha256 = self._found(facts.deployment, facts.landed_as, facts.model)
        values = {
            parameter: _parameter(given, parameter, settings)
            for parameter, given in zip(PARAMETERS, facts.parameters, strict=True)
        }
        top_k = values["top_k"]
        return Meaning(
            deployment=name,
            engine=settings.engine or facts.engine,
            logprob_kind=_kind(settings.stated_kind, facts.kind),
            policy_version=_version(facts, settings),
            temperature=values["temperature"],
            top_p=values["top_p"],
            top_k=None if top_k is None else max(int(top_k), 0) or -1,
            min_p=values["min_p"],
            repetition_penalty=values["repetition_penalty"],
            vocabulary_size=settings.vocabulary_size,
            tokenizer_sha256=settings.tokenizer_sha256,
            choice_selection=settings.choice_selection,
            settings_sha256=settings_sha256,
        )

    def _find(self, deployment: str | None, landed_as: str | None, model: str) -> tuple[str | None, Deployment, str]:
        """The deployment's name, its settings and their hash."""
        name = self._look_up(deployment, landed_as, model)
        settings = self._deployments.get(name, _UNDESCRIBED) if name is not None else _UNDESCRIBED
        stated = self._stated.get(name, {}) if name is not None else {}
        rules = [_RULES, name, _named_version(model, settings), stated]
        packed = json.dumps(rules, sort_keys=True, separators=(",", ":"))
        return name, settings, hashlib.sha256(packed.encode(errors="backslashreplace")).hexdigest()


_UNDESCRIBED = Deployment()


def joined_sha256(hashes: Iterable[str]) -> str:
    """One hash for the settings behind several calls: that of the calls where they share one.

    warehouse/sql/ingest/stale_traces.sql computes the same.
    """
    several = sorted(set(hashes))
    return several[0] if len(several) == 1 else hashlib.sha256(",".join(several).encode()).hexdigest()


def _kind(stated: LogprobKind | None, field: str | None) -> LogprobKind:
    """What the settings state and what the field says by itself; where they differ one is wrong."""
    said: LogprobKind | None = next((kind for kind in get_args(StatedKind) if kind == field), None)
    if stated is None:
        return said or "unknown"
    return stated if said is None or said == stated else "unknown"


def _named_version(model: str, settings: Deployment) -> list[str | None] | None:
    """The version that the settings find, None in it where the pattern does not fit; None where they look for none."""
    if settings.policy_version is not None:
        return [settings.policy_version]
    if settings.version_pattern is None:
        return None
    match = search(settings.version_pattern, model)
    return [match.group(1) if match else None]


def _version(facts: Facts, settings: Deployment) -> str | None:
    """The one version that wrote all tokens: by the settings, else by the server's name of the weights."""
    if len(facts.versions) > 1:
        return None
    named = _named_version(facts.model, settings)
    if named is not None:
        return named[0]
    return facts.versions[0] if facts.versions and facts.versions[0] != _UNNAMED_WEIGHTS else None


def _parameter(given: float | None, name: str, settings: Deployment) -> float | None:
    if given is not None:
        return given
    stated: float | None = getattr(settings.defaults, name)
    if stated is not None:
        return stated
    neutral: float | None = getattr(NEUTRAL, name)
    return neutral if settings.is_neutral else None
