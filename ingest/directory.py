"""Which of the described deployments a call is of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from ingest.patterns import search


class Named(Protocol):
    """By what the settings of a deployment let its calls be known."""

    @property
    def names(self) -> Sequence[str]:
        """Further names of it."""

    @property
    def models(self) -> Sequence[str]:
        """Served models, by name or pattern."""

    @property
    def version_pattern(self) -> str | None:
        """Regular expression over the served model's name."""


class Directory:
    """Finds the deployment that a call names, or else the one that alone knows its model's name."""

    def __init__(self, deployments: Mapping[str, Named]) -> None:
        self._deployments = deployments
        self._by_name = _by_alias(deployments) | {name: name for name in deployments}

    def __call__(self, deployment: str | None, landed_as: str | None, model: str) -> str | None:
        """Its name in the settings; as logged where they do not describe it, None where nothing names one.

        `landed_as` is what a row of version 1 landed as; it counts where the present settings do not know the model.
        """
        name = deployment if deployment is not None else self._by_model(model) or landed_as
        return self._by_name.get(name, name) if name is not None else None

    def _by_model(self, model: str) -> str | None:
        """The one deployment that lists the model, else the one whose pattern fits its name; None where several do.

        A list says more than a pattern: a deployment that states `models` is found by them alone.
        """
        fitting = [
            name
            for name, settings in self._deployments.items()
            if any(fnmatchcase(model, pattern) for pattern in settings.models)
        ] or [
            name
            for name, settings in self._deployments.items()
            if not settings.models and settings.version_pattern is not None and search(settings.version_pattern, model)
        ]
        return fitting[0] if len(fitting) == 1 else None


def _by_alias(deployments: Mapping[str, Named]) -> dict[str, str]:
    """The deployment of each further name; a name of several is of none."""
    owners = Counter(alias for one in deployments.values() for alias in set(one.names))
    return {alias: name for name, one in deployments.items() for alias in one.names if owners[alias] == 1}
