"""A fuzzer over lines and files: whatever is thrown at ingest ends as rows, rejects or blanks, never as a crash.

    python -m tests.ingest.fuzz --minutes 20 [--seed 7]

Lines are the payloads of the tests and the example, damaged: values of other types, keys gone or doubled, fields of any
format put in with values of any payload, numbers out of range, bytes flipped, cut, nested, joined. Each is read, turned
into rows and conformed to the tables. Files of such lines, in every kind of file and cut anywhere, are landed in a lake
and put together; their counts must add up, and landing them again must bring nothing. What fails is printed with its
seed and written to `fuzz-findings/`.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from ingest.assemble import assemble
from ingest.batch import Placed
from ingest.land import land_calls, land_outcomes
from ingest.line import Line
from ingest.log_source import LogSource
from ingest.reading import Reading
from ingest.redact import RedactSettings
from ingest.settings import LogSettings
from schemas.errors import InputError, LineError
from schemas.tables import table
from tests.ingest.fuzz_lines import Fuzzer
from tests.ingest.hand_made import DEPLOYMENTS
from warehouse.conform import conform
from warehouse.invariants import CHECKS
from warehouse.lake import Lake

NOW = datetime(2026, 11, 29, tzinfo=UTC)
REDACT = RedactSettings(detectors=("email", "phone", "card", "secret"))
READING = Reading(content_kind="calls", deployments=DEPLOYMENTS, settings=LogSettings(redact=REDACT), now=NOW)
SHOWN = 300


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
