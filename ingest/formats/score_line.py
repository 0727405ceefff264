"""A line that holds scores as plain fields, read strictly: a score is a number or it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ingest.formats.strict import repair
from schemas.errors import LineError


def fields_of(line: bytes) -> dict[str, Any]:
    """The fields of one JSON object; a key that stands twice and a number that is none are refused."""
    repaired, notes = repair(line)
    if "nonfinite_number" in notes:
        raise LineError("bad_value", "a number is NaN or infinite; expected a finite score, or null to withdraw one")
    event = json.loads(repaired)
    if not isinstance(event, dict):
        raise LineError(
            "schema_unknown", f"a JSON {type(event).__name__}; expected an object with the fields of an outcome"
        )
    return event


def part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object within a record, empty where it is missing or null; raises LineError for anything else."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise LineError("bad_field", f"{name} is a {type(value).__name__}; expected an object: mend the writer")
    return value


def parts(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects within a record, empty where it is missing or null; raises LineError for anything else."""
    values = record.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
        raise LineError("bad_field", f"{name} is no list of objects; expected one: mend the writer")
    return values
