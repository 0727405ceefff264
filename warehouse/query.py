"""Named .sql files: their header read, their parameters bound, never pasted.

A header is the comment at the top of the file:

    -- Which policy versions wrote the traces, and how far are they behind?
    -- Grain: one row per behavior version.
    -- Parameters:
    --   $trust double = 0.003   highest drift, in nats per token
    --   $run_id varchar         the run
    -- Tables:
    --   incoming (call_id)
    -- Columns:
    --   policy_version   the version that wrote the traces

A parameter with a default may be left out. Its type is stated, or else that of its default.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError
from warehouse.statements import SQL_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"(?:[a-z][a-z0-9_]*/)?[a-z][a-z0-9_]*")
_PARAMETER = re.compile(
    r"\$(?P<name>\w+)(?:[ ]+(?P<type>varchar|double|bigint|boolean|timestamptz)(?P<many>\[\])?)?"
    r"(?:[ ]*=[ ]*(?P<default>'[^']*'|[^\s'\[]+|\[[^\]]*\]))?(?:[ ]{2,}(?P<meaning>.*))?"
)
_USED = re.compile(r"'(?:[^']|'')*'|--[^\n]*|\$([a-z_]\w*)", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*")
_RELATION = re.compile(r"\b(?:from|join)\s+([a-z_]\w*)")
_SECTIONS = ("Parameters:", "Tables:", "Columns:")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query: its DuckDB type ("" when it takes what is given), its default and its meaning."""

    name: str
    type: str
    many: bool
    required: bool
    default: Any
    meaning: str


@dataclass(frozen=True, slots=True)
class Query:
    """One .sql file: the question it answers, the grain of its rows, its parameters, tables, columns and text."""

    name: str
    question: str
    grain: str
    parameters: tuple[Parameter, ...]
    tables: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    text: str

    @property
    def relations(self) -> set[str]:
        """Every name that stands after `from` or `join`: tables, views and the text's own steps."""
        return {match[1] for match in _RELATION.finditer(_COMMENT.sub("", self.text))}

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The value of every parameter; text is read as the declared type, so a command line can pass what it got."""
        known = {parameter.name: parameter for parameter in self.parameters}
        unknown = sorted(given.keys() - known.keys())
        missing = [p.name for p in self.parameters if p.required and p.name not in given]
        if unknown or missing:
            found = f"unknown parameter {unknown[0]!r}" if unknown else f"parameter {missing[0]!r} is missing"
            raise UsageError(f"query {self.name}: {found}; expected {_listed(self.parameters)}")
        return {name: _typed(self.name, p, given.get(name, p.default)) for name, p in known.items()}


def load(name: str) -> Query:
    """The query of that name: a path under `sql/` without suffix; a bare name is a saved question."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"query name {name!r}: expected folder/name or the name of a saved question")
    path = name if "/" in name else f"questions/{name}"
    if not (SQL_FOLDER / f"{path}.sql").is_file():
        known = ", ".join(question.name for question in questions())
        raise UsageError(f"no query {name!r}: expected one of the saved questions ({known}), or folder/name")
    return _load(path)


def questions() -> list[Query]:
    """All saved questions, by name."""
    return [_load(f"questions/{path.stem}") for path in sorted((SQL_FOLDER / "questions").glob("*.sql"))]


def names(folder: str) -> list[str]:
    """The queries of one folder under `sql/`, sorted, as `folder/name`."""
    return [f"{folder}/{path.stem}" for path in sorted((SQL_FOLDER / folder).glob("*.sql"))]


@cache
def _load(path: str) -> Query:
    text = (SQL_FOLDER / f"{path}.sql").read_text("utf-8")
    header = _header(text)
    sections = _sections(header)
    declared = [_parameter(path, line) for line in sections["Parameters:"]]
    used = {match[1] for match in _USED.finditer(text) if match[1]}
    declared += [Parameter(name, "", False, True, None, "") for name in sorted(used - {p.name for p in declared})]
    grain = next((line for line in header if line.startswith("Grain:")), "")
    question = (
        " ".join(line.strip() for line in header[: header.index(grain)] if line) if grain else " ".join(header[:1])
    )
    return Query(
        name=path.removeprefix("questions/"),
        question=question,
        grain=grain.removeprefix("Grain:").strip(),
        parameters=tuple(declared),
        tables=tuple(line.split("(")[0].strip() for line in sections["Tables:"]),
        columns=tuple(_column(line) for line in sections["Columns:"]),
        text=text,
    )


def _header(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").removeprefix(" ").rstrip())
    return lines


def _sections(header: list[str]) -> dict[str, list[str]]:
    """Lines of each section; a line that is indented further goes on with the line before it."""
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    current = None
    for line in header:
        if line in sections:
            current = sections[line]
        elif not line.startswith("  "):
            current = None
        elif current is not None and line.startswith("    ") and current:
            current[-1] += " " + line.strip()
        elif current is not None:
            current.append(line.strip())
    return sections


def _column(line: str) -> tuple[str, str]:
    name, _, meaning = line.partition(" ")
    return name, meaning.strip()


def _parameter(path: str, line: str) -> Parameter:
    match = _PARAMETER.fullmatch(line)
    if match is None:
        raise UsageError(f"{path}.sql: parameter line {line!r}; expected `$name type = default   meaning`")
    default = None if match["default"] is None else _literal(match["default"])
    kind = match["type"] or {bool: "boolean", int: "bigint", float: "double", str: "varchar"}.get(type(default), "")
    return Parameter(
        name=match["name"],
        type=kind,
        many=bool(match["many"]) or isinstance(default, list),
        required=match["default"] is None,
        default=default,
        meaning=match["meaning"] or "",
    )


def _literal(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    return json.loads(text.replace("'", '"'))


def _typed(query: str, parameter: Parameter, value: Any) -> Any:
    if value is None:
        return None
    if parameter.many and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        if parameter.many:
            return [_convert(parameter.type, one) for one in value]
        return _convert(parameter.type, value)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"query {query}: parameter {parameter.name} is {value!r}; expected {parameter.type or 'a value'}"
            f"{' list' if parameter.many else ''} ({parameter.meaning}); {error}"
        ) from error


def _convert(kind: str, value: Any) -> Any:
    if kind == "timestamptz":
        return _time(value)
    if not isinstance(value, str) or kind in ("varchar", ""):
        return value
    if kind == "boolean":
        if value.lower() not in ("true", "false"):
            raise ValueError("write true or false")
        return value.lower() == "true"
    return int(value) if kind == "bigint" else float(value)


def _time(value: Any) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("write a time with its offset, such as 2026-11-29T00:00:00Z")
    return moment.astimezone(UTC)


def _listed(parameters: tuple[Parameter, ...]) -> str:
    if not parameters:
        return "no parameters"
    return ", ".join(f"{p.name}{'' if p.required else f' (default {p.default})'}" for p in parameters)
