"""A fuzzer over lines and files: whatever is thrown at ingest ends as rows, rejects or blanks, never as a crash.

    python -m tests.ingest.fuzz --minutes 20 [--seed 7]

Lines are the payloads of the tests and the example, damaged: values of other types, keys gone or doubled, numbers out of
range, bytes flipped, cut, nested, joined. Each is read, turned into rows and conformed to the tables. Files of such
lines, in every kind of file and cut anywhere, are landed in a lake and put together; their counts must add up, and
landing them again must bring nothing. What fails is printed with its seed and written to `fuzz-findings/`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard

from ingest.assemble import assemble
from ingest.batch import Placed
from ingest.call_rows import LogSource
from ingest.land import land_calls, land_outcomes
from ingest.line import Line
from ingest.reading import Reading
from ingest.redact import RedactSettings
from ingest.settings import LogSettings
from schemas.errors import InputError, LineError
from schemas.tables import table
from tests.ingest.hand_made import DEPLOYMENTS, EXAMPLE
from warehouse.conform import conform
from warehouse.invariants import CHECKS
from warehouse.lake import Lake

NOW = datetime(2026, 11, 29, tzinfo=UTC)
REDACT = RedactSettings(detectors=("email", "phone", "card", "secret"))
READING = Reading(content_kind="calls", deployments=DEPLOYMENTS, settings=LogSettings(redact=REDACT), now=NOW)
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
SHOWN = 300


def seeds() -> list[bytes]:
    """One line a payload."""
    found = [line for line in (EXAMPLE / "logs" / "2026-11-24.jsonl").read_bytes().splitlines()[:12] if line]
    for folder in (PAYLOADS, RECORDED):
        for path in sorted(folder.glob("*.json*")) if folder.is_dir() else ():
            text = path.read_bytes()
            try:
                document = json.loads(text)
            except ValueError:
                found += [line for line in text.splitlines()[:20] if line.strip()]
            else:
                found.append(json.dumps(document).encode())
                found += [json.dumps(part).encode() for part in document] if isinstance(document, list) else []
    return found


class Fuzzer:
    """Draws damaged lines and files."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a fuzzer, not secrets
        self.seeds = seeds()

    def line(self) -> bytes:
        """One line, damaged in one to four ways, sometimes not at all."""
        line = self.random.choice(self.seeds)
        for _ in range(self.random.choice((0, 1, 1, 2, 4))):
            line = self._damage(line)
        return line.replace(b"\n", b" ")

    def _damage(self, line: bytes) -> bytes:
        way = self.random.randrange(9)
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


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def check_line(source: LogSource, line: bytes, ends: Counter[str]) -> None:
    """Read a line, turn it into rows and conform them."""
    sha256 = hashlib.sha256(line).hexdigest()
    try:
        items = source.read(Line(0, len(line), line)) if line.strip() else ()
    except LineError as error:
        ends[error.reason] += 1
        return
    ends["rows" if items else "blank"] += 1
    placed = [Placed(item, "fuzz", 0, sha256) for item in items or ()]
    for name, rows in source.rows(placed, NOW).items():
        conformed = conform(table(name), rows)
        if name in CHECKS and conformed.num_rows:
            CHECKS[name](conformed)


def check_file(folder: Path, content: bytes, ends: Counter[str]) -> None:
    """Land a file twice and put its traces together; counts add up, and the second time brings nothing."""
    path = folder / "log"
    path.write_bytes(content)
    settings = LogSettings(max_line_bytes=200_000, batch_bytes=50_000)
    for land in (land_calls, land_outcomes):
        more = {"deployments": DEPLOYMENTS} if land is land_calls else {}
        shutil.rmtree(folder / "lake", ignore_errors=True)
        with Lake.create(folder / "lake") as lake:
            try:
                first = land(lake, [str(path)], settings=settings, now=NOW, **more)
            except InputError as error:
                ends[f"file refused: {str(error)[:40]}"] += 1
                continue
            (file,) = first.files
            states = file.num_landed + file.num_duplicates + file.num_rejects + file.num_blank
            assert states == file.num_lines, file
            assert file.num_rows == lake.read("calls").num_rows + lake.read("outcomes").num_rows
            assemble(lake, deployments=DEPLOYMENTS, settings=settings, now=NOW)
            again = land(lake, [str(path)], settings=settings, now=NOW, **more)
            assert again.num_lines == 0, again
            assert assemble(lake, deployments=DEPLOYMENTS, settings=settings, now=NOW).num_traces == 0
    ends["files"] += 1


def main() -> None:
    """Fuzz for so many minutes; ends with 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--files", type=float, default=0.002, help="share of draws that are whole files")
    given = parser.parse_args()
    findings = Path("fuzz-findings")
    ends: Counter[str] = Counter()
    found: Counter[str] = Counter()
    until = time.monotonic() + given.minutes * 60
    draw = given.seed
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    while time.monotonic() < until:
        draw += 1
        fuzzer = Fuzzer(draw)
        is_file = fuzzer.random.random() < given.files
        subject = fuzzer.file() if is_file else b""
        try:
            if is_file:
                check_file(folder, subject, ends)
            else:
                source = LogSource(READING, b"salt")
                for _ in range(50):
                    subject = fuzzer.line()
                    check_line(source, subject, ends)
        except Exception as error:  # noqa: BLE001 - what a fuzzer is for
            place = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            found[key] += 1
            if found[key] == 1:
                findings.mkdir(exist_ok=True)
                (findings / f"{draw}.bin").write_bytes(subject)
                print(f"draw {draw}: {key}: {str(error)[:SHOWN]}\n  {subject[:SHOWN]!r}", flush=True)
                traceback.print_exc(limit=-4)
    shutil.rmtree(folder)
    print(f"{given.minutes:g} minutes, draws {given.seed + 1} to {draw}")
    print("ends:", dict(ends.most_common()))
    print("findings:", dict(found.most_common()) or "none")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
