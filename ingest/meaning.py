"""What a log line cannot say and the settings must: which distribution, which policy version, which defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

from pydantic import Field, model_validator

from ingest.call import Call
from schemas.settings import Settings

LogprobKind = Literal["raw", "temperature", "processed", "unknown"]

_KIND_OF_MODE: dict[str | None, LogprobKind] = {"raw_logprobs": "raw", "processed_logprobs": "processed"}
"""vLLM's --logprobs-mode. The two logits modes put numbers that are no log-probabilities into the same field, so
their kind is unknown. docs/formats.md."""


class SamplingDefaults(Settings):
    """What the server takes for a sampling parameter that a request leaves out."""

    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature. Convention, untested: unknown unless stated."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus bound. Convention, untested: unknown unless stated."""

    top_k: int | None = Field(default=None, ge=-1)
    """Top-k bound, -1 or 0 when off. Convention, untested: unknown unless stated."""

    min_p: float | None = Field(default=None, ge=0, le=1)
    """Least probability relative to the likeliest token, 0 when off. Convention, untested: unknown unless stated."""

    repetition_penalty: float | None = Field(default=None, gt=0)
    """Repetition penalty, 1 when off. Convention, untested: unknown unless stated."""


NEUTRAL = SamplingDefaults(temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0, repetition_penalty=1.0)
"""vLLM's own defaults, in force under --generation-config vllm. vLLM 0.33, docs/formats.md."""


class Deployment(Settings):
    """One served deployment, by the name that its log lines carry: [deployments.NAME] of the settings file."""

    engine: str | None = None
    """Serving engine, such as vllm. Convention, untested: as the log says, unless stated."""

    logprobs_mode: Literal["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"] | None = None
    """The server's --logprobs-mode; no response says it. Convention, untested: unknown unless stated."""

    generation_config: Literal["vllm", "auto"] = "auto"
    """The server's --generation-config. With "vllm" a parameter that a request leaves out is neutral; with "auto",
    vLLM's default, it comes from the model's own file and is unknown here. vLLM 0.33, docs/formats.md."""

    defaults: SamplingDefaults = SamplingDefaults()
    """What the server takes for parameters that a request leaves out; wins over `generation_config`.
    Convention, untested: unknown unless stated."""

    version_pattern: str | None = None
    """Regular expression over the served model's name whose first group is the policy version, such as "@(v[0-9]+)$".
    Convention, untested: the name says no version unless stated."""

    policy_version: str | None = None
    """The one policy version that the deployment serves. Convention, untested: unknown unless stated."""

    vocabulary_size: int | None = Field(default=None, ge=1)
    """Token ids lie below it. Convention, untested: not checked unless stated."""

    tokenizer_sha256: str | None = None
    """SHA-256 of the tokenizer file that the ids belong to. Convention, untested: unknown unless stated."""

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
            groups = re.compile(self.version_pattern).groups
        except re.error as error:
            raise ValueError(
                f"version_pattern {self.version_pattern!r} is no regular expression ({error}): mend it"
            ) from error
        if groups < 1:
            raise ValueError(
                f"version_pattern {self.version_pattern!r} has no group; expected one around the version, such as "
                "@(v[0-9]+)$"
            )
        return self


_PARAMETERS = tuple(SamplingDefaults.model_fields)


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


class Interpreter:
    """Gives calls their meaning by the deployment that each names, or that alone knows its model's name.

    A sampling parameter that is neither logged nor stated stays unknown: an unset one comes from a file beside the
    model, which is seldom neutral.
    """

    def __init__(self, deployments: Mapping[str, Deployment]) -> None:
        self._deployments = deployments
        # Calls of one log say the same few things over and over.
        self._cached = lru_cache(maxsize=4096)(self._interpret)

    def __call__(self, call: Call) -> Meaning:
        """What the call's numbers mean."""
        logged = tuple(call.sampling.get(name) for name in _PARAMETERS)
        return self._cached(call.deployment, call.model, call.engine, call.weight_version, logged)

    def _interpret(
        self,
        deployment: str | None,
        model: str,
        engine: str | None,
        weights: str | None,
        logged: tuple[float | None, ...],
    ) -> Meaning:
        name = deployment if deployment is not None else _by_model(model, self._deployments)
        settings = self._deployments.get(name, Deployment()) if name is not None else Deployment()
        given = dict(zip(_PARAMETERS, logged, strict=True))
        top_k = _parameter(given, "top_k", settings)
        return Meaning(
            deployment=name,
            engine=settings.engine or engine,
            logprob_kind=_KIND_OF_MODE.get(settings.logprobs_mode, "unknown"),
            policy_version=_version(model, weights, settings),
            temperature=_parameter(given, "temperature", settings),
            top_p=_parameter(given, "top_p", settings),
            top_k=None if top_k is None else max(int(top_k), 0) or -1,
            min_p=_parameter(given, "min_p", settings),
            repetition_penalty=_parameter(given, "repetition_penalty", settings),
            vocabulary_size=settings.vocabulary_size,
        )


def _by_model(model: str, deployments: Mapping[str, Deployment]) -> str | None:
    fitting = [
        name
        for name, settings in deployments.items()
        if settings.version_pattern is not None and re.search(settings.version_pattern, model)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _version(model: str, weights: str | None, settings: Deployment) -> str | None:
    if settings.policy_version is not None:
        return settings.policy_version
    if settings.version_pattern is not None:
        match = re.search(settings.version_pattern, model)
        return match.group(1) if match else None
    return weights


def _parameter(logged: Mapping[str, float | None], name: str, settings: Deployment) -> float | None:
    given = logged[name]
    if given is not None:
        return given
    stated: float | None = getattr(settings.defaults, name)
    if stated is not None:
        return stated
    neutral: float | None = getattr(NEUTRAL, name)
    return neutral if settings.generation_config == "vllm" else None
