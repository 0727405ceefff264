"""Deliveries on disk: whole lines, whatever happens between."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from ingest.spool import Spool, delivery_line
from schemas.errors import InputError

NOW = datetime(2026, 9, 24, 9, tzinfo=UTC)
HEADERS = {"webhook-id": "msg_2", "webhook-timestamp": "1790259200", "webhook-signature": "v1,abc=", "cookie": "x"}


def test_a_delivery_is_one_line_with_its_numbers_as_they_were_written():
    """The signature and other headers are not kept."""
    line = delivery_line(HEADERS, b'{\n "price": 1.10,\n "note": "a\\nb"\n}')
    assert line == (
        b'{"headers":{"webhook-id":"msg_2","webhook-timestamp":"1790259200"},"body":{"price":1.10,"note":"a\\nb"}}\n'
    )


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a":NaN}', b"a=1", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(body):
    """It could not be read later."""
    with pytest.raises(InputError, match="no JSON"):
        delivery_line(HEADERS, body)


def test_each_day_has_its_file_private_to_its_owner(tmp_path):
    """Two deliveries of one day, one of the next."""
    spool = Spool(tmp_path / "spool")
    for now in (NOW, NOW, NOW.replace(day=25)):
        path = spool.keep(HEADERS, b"{}", now=now)
    assert path.name == "webhooks-2026-09-25.jsonl"
    assert [len(file.read_bytes().splitlines()) for file in sorted((tmp_path / "spool").iterdir())] == [2, 1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700


@pytest.mark.parametrize("torn", [b'{"headers":', b"x" * 200_000])
def test_part_of_a_line_that_a_crash_left_is_taken_away(tmp_path, torn):
    """Its sender was never told that it was kept; the lines before it stay."""
    spool = Spool(tmp_path)
    path = spool.keep(HEADERS, b"1", now=NOW)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    spool.keep(HEADERS, b"2", now=NOW)
    assert [json.loads(line)["body"] for line in path.read_bytes().splitlines()] == [1, 2]
    path.write_bytes(torn)
    spool.keep(HEADERS, b"3", now=NOW)
    assert [json.loads(line)["body"] for line in path.read_bytes().splitlines()] == [3]


def test_writers_side_by_side_lose_nothing(tmp_path):
    """Eight threads, forty deliveries, each a whole line."""
    spools = [Spool(tmp_path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: spools[n % 8].keep(HEADERS, b'"%s"' % (b"x" * n), now=NOW), range(40)))
    (path,) = tmp_path.iterdir()
    assert sorted(len(json.loads(line)["body"]) for line in path.read_bytes().splitlines()) == list(range(40))


def test_a_delivery_that_the_disk_does_not_take_leaves_nothing_behind(tmp_path, monkeypatch):
    """The next one does not follow on half a line."""
    spool = Spool(tmp_path)
    path = spool.keep(HEADERS, b"1", now=NOW)

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            spool.keep(HEADERS, b"2", now=NOW)
    assert [json.loads(line)["body"] for line in path.read_bytes().splitlines()] == [1]
