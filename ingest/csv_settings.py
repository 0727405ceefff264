"""Settings of CSV files with outcomes: whose columns they have, and how they write numbers and times."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, model_validator

from ingest.outcome import OPTIONAL, REQUIRED
from schemas.settings import Settings

FIELDS = (*REQUIRED, *OPTIONAL)
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})", re.ASCII)


class CsvSettings(Settings):
    """How CSV files with outcomes are written; a file with the columns of `outcomes` needs none of it."""

    columns: dict[str, str] = Field(default_factory=dict)
    """Field of an outcome by the name that the files give its column, such as ask_id = "business_key".
    Convention, untested: columns have the names of the fields unless stated."""

    constants: dict[str, str] = Field(default_factory=dict)
    """Value of a field for all rows of files that have no column for it, such as source = "desk". Convention,
    untested: none unless stated."""

    decimal: Literal[".", ","] = "."
    """Decimal mark; with a comma, 4,5 is four and a half and 4.5 is refused. Convention, untested."""

    timezone: str | None = None
    """Zone of times without an offset: an IANA name such as Europe/Berlin, or an offset such as +02:00. Convention,
    untested: such times are refused unless it is stated."""

    date_format: str | None = None
    """How times are written, in the codes of strptime, such as %d/%m/%Y %H:%M. Convention, untested: ISO 8601 or
    epoch seconds unless stated."""

    @model_validator(mode="after")
    def _refuse_what_cannot_be_meant(self) -> Self:
        for place, field in [*self.columns.items(), *((name, name) for name in self.constants)]:
            if field not in FIELDS:
                raise ValueError(f"{place!r} stands for {field!r}: expected one of {', '.join(FIELDS)}")
        if len(set(self.columns.values())) < len(self.columns):
            raise ValueError("two columns stand for one field: expected one each")
        if self.date_format is not None and _written(self.date_format) != _SAMPLE:
            raise ValueError(
                f"date_format = {self.date_format!r}: expected codes for year, month, day, hour and minute, "
                "such as %d/%m/%Y %H:%M"
            )
        if self.timezone is not None and self.zone is None:
            raise ValueError(f"timezone = {self.timezone!r}: expected a name such as Europe/Berlin or an offset +02:00")
        return self

    @cached_property
    def zone(self) -> tzinfo | None:
        """The zone of times without an offset; None where none is stated."""
        if self.timezone is None:
            return None
        if match := _OFFSET.fullmatch(self.timezone):
            sign, hours, minutes = match.groups()
            ahead = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(ahead if sign == "+" else -ahead) if ahead < timedelta(hours=24) else None
        try:
            return ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return None


_SAMPLE = datetime(2026, 9, 22, 14, 5)  # noqa: DTZ001 - only its writing is compared


def _written(date_format: str) -> datetime | None:
    """The sample written in the format and read again; None where the format cannot do that."""
    try:
        read = datetime.strptime(_SAMPLE.strftime(date_format), date_format)  # noqa: DTZ007 - a sample has no zone
        return read.replace(tzinfo=None)
    except (ValueError, re.error):  # a code that stands twice is a fault of the expression that strptime makes of it
        return None
