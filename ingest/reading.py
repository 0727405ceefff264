"""What a reading of files goes by, as one value that a worker process can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from ingest.meaning import Deployment
from ingest.settings import LogSettings

ContentKind = Literal["calls", "outcomes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files are read: as what, under which settings, and at which time of the clock."""

    content_kind: ContentKind
    """What the ledger calls the files; a line may hold calls and outcomes under either."""
    deployments: Mapping[str, Deployment]
    settings: LogSettings
    now: datetime
    again: bool = False
    """Whether files that were read before are read from their beginning, as after a change of settings."""

    def as_json(self) -> dict[str, Any]:
        """The same in JSON types."""
        return {
            "content_kind": self.content_kind,
            "deployments": {name: one.model_dump(mode="json") for name, one in self.deployments.items()},
            "settings": self.settings.model_dump(mode="json"),
            "now": self.now.isoformat(),
            "again": self.again,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The inverse of `as_json`."""
        return cls(
            content_kind=told["content_kind"],
            deployments={name: Deployment.model_validate(one) for name, one in told["deployments"].items()},
            settings=LogSettings.model_validate(told["settings"]),
            now=datetime.fromisoformat(told["now"]),
            again=told["again"],
        )
