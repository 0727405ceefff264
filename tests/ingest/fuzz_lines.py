"""Damaged lines and files for the fuzzer."""

from __future__ import annotations

import gzip
import json
import pkgutil
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from ingest import formats
from tests.ingest.hand_made import EXAMPLE

PAYLOADS = Path(__file__).parent / "payloads"
RECORDED = Path(__file__).parent / "recorded"
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**70,
    -(2**31) - 1,
    0.5,
    -0.0,
    1e308,
    -9999.0,
    -3.4e38,
    "",
    "x",
    "NaN",
    "\x00",
    "\u2028",
    "😀",
    "token_id:7",
    "token_id:-1",
    "2026-11-29T00:00:00Z",
    "2026-02-30T99:00:00",
    [],
    {},
    [None],
    [[]],
    [{}],
    [1, 2, 3],
    [1.5],
    ["a"],
    {"a": 1},
    "[" * 50,
    '{"a":',
)
RAW = (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"9" * 5000, b"0." + b"1" * 5000, b'"\\ud83d"', b"-", b"[" * 3000)


def struct_fields() -> list[tuple[str, ...]]:
    """The names of the fields that each type of any format decodes, as they stand in a log."""
    modules = [import_module(f"{formats.__name__}.{found.name}") for found in pkgutil.iter_modules(formats.__path__)]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    structs = [kind for kind in kinds if issubclass(kind, msgspec.Struct)]
    return sorted({struct.__struct_encode_fields__ for struct in structs if struct.__struct_encode_fields__})


FIELDS = struct_fields()


def lines_by_payload() -> list[list[bytes]]:
    """The lines of each payload."""
    found = [[line for line in (EXAMPLE / "logs" / "2026-11-24.jsonl").read_bytes().splitlines()[:12] if line]]
    for folder in (PAYLOADS, RECORDED):
        for path in sorted(folder.glob("*.json*")) if folder.is_dir() else ():
            text = path.read_bytes()
            try:
                document = json.loads(text)
            except ValueError:
                found.append([line for line in text.splitlines()[:20] if line.strip()])
            else:
                found.append([json.dumps(document).encode()])
                found[-1] += [json.dumps(part).encode() for part in document] if isinstance(document, list) else []
    return [lines for lines in found if lines]


def seeds() -> list[bytes]:
    """The lines of all payloads."""
    return [line for lines in lines_by_payload() for line in lines]


class Fuzzer:
    """Draws damaged lines and files."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a fuzzer, not secrets
        self.payloads = lines_by_payload()

    def line(self) -> bytes:
        """One line, damaged in one to four ways, sometimes not at all."""
        line = self._seed()
        for _ in range(self.random.choice((0, 1, 1, 2, 4))):
            line = self._damage(line)
        return line.replace(b"\n", b" ")

    def _seed(self) -> bytes:
        return self.random.choice(self.random.choice(self.payloads))

    def _damage(self, line: bytes) -> bytes:
        way = self.random.randrange(12)
        if way >= 9:
            return self._insert(line)
        if way <= 4:
            return self._structure(line)
        if way == 5 and line:
            place = self.random.randrange(len(line))
            return line[:place] + bytes([self.random.randrange(256)]) + line[place + 1 :]
        if way == 6:
            return line[: self.random.randrange(len(line) + 1)]
        if way == 7:
            return self._raw(line)
        return self.random.choice((line + line, b"[" + line + b"]", b" " + line, line + b"\r", b"\xef\xbb\xbf" + line))

    def _structure(self, line: bytes) -> bytes:
        """Replace, remove, wrap or move a value somewhere in the document."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return line
        places = list(_places(document))
        if not places:
            return line
        holder, key = self.random.choice(places)
        way = self.random.randrange(5)
        if way == 0:
            del holder[key]
        elif way == 1:
            holder[key] = [holder[key]]
        elif way == 2:
            other, name = self.random.choice(places)
            holder[key] = json.loads(json.dumps(other[name])) if _has(other, name) else None
        elif way == 3 and isinstance(holder, list):
            holder[key:key] = [holder[key]] * self.random.choice((1, 3, 200))
        else:
            holder[key] = self.random.choice(VALUES)
        return json.dumps(document).encode()

    def _insert(self, line: bytes) -> bytes:
        """Put fields of one type of some format into some object, with any values or those of another payload.

        Half of the time the type is one that the object may be of.
        """
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return line
        objects = [one for one in (document, *(holder[key] for holder, key in _places(document))) if _is_object(one)]
        if not objects:
            return line
        place = self.random.choice(objects)
        fitting = [fields for fields in FIELDS if len(place.keys() & fields) * 2 >= len(place) > 0]
        fields = self.random.choice(fitting if fitting and self.random.random() < 0.5 else FIELDS)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            place[self.random.choice(fields)] = self._value()
        return json.dumps(document).encode()

    def _value(self) -> Any:
        places = _places(json.loads(self._seed())) if self.random.random() < 0.5 else []
        holder, key = self.random.choice(places) if places else (VALUES, self.random.randrange(len(VALUES)))
        return holder[key]

    def _raw(self, line: bytes) -> bytes:
        """Put what no JSON writer writes in the place of a number or a text."""
        places = [place for place, byte in enumerate(line) if byte in b":,["]
        if not places:
            return line
        place = self.random.choice(places) + 1
        end = next((i for i in range(place, len(line)) if line[i] in b",]}"), len(line))
        return line[:place] + self.random.choice(RAW) + line[end:]

    def file(self) -> bytes:
        """A file of such lines, of any kind, sometimes cut."""
        lines = [self.line() for _ in range(self.random.randrange(1, 30))]
        if self.random.random() < 0.2:
            lines += self.random.choices(lines, k=3)
        if self.random.random() < 0.15:
            content = b"[" + b",\n".join(lines) + b"]"
        else:
            content = self.random.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(lines) + self.random.choice(
                (b"", b"\n")
            )
        way = self.random.randrange(5)
        if way == 0:
            content = gzip.compress(content)
        elif way == 1:
            half = len(content) // 2
            content = gzip.compress(content[:half]) + gzip.compress(content[half:])
        elif way == 2:
            content = zstandard.compress(content)
        if self.random.random() < 0.25:
            content = content[: self.random.randrange(len(content) + 1)]
        if self.random.random() < 0.1 and content:
            place = self.random.randrange(len(content))
            content = content[:place] + bytes([self.random.randrange(256)]) + content[place + 1 :]
        return content


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)
