"""The endpoint: what it answers, and that it answers nothing else."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient, Response

from flows.webhook import application, listening, serve
from ingest.receiver import Receiver
from ingest.settings import LogSettings
from ingest.spool import Spool
from schemas.errors import SettingsError
from tests.ingest.test_receiver import BODY, SECRET, kept, signed

Ask = Callable[..., Response]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Asks an endpoint with one secret, for bodies of a kilobyte."""
    app = application(Receiver([SECRET], Spool(tmp_path / "spool")), max_body_bytes=1024)

    async def send(method: str, path: str, **request: Any) -> Response:
        async with AsyncClient(transport=ASGITransport(app), base_url="http://desk") as client:
            return await client.request(method, path, **request)

    return lambda method, path, **request: asyncio.run(send(method, path, **request))


def test_a_signed_delivery_is_taken(ask, tmp_path):
    """204 and nothing else, and the line is there."""
    answer = ask("POST", "/webhooks", content=BODY, headers=signed())
    assert (answer.status_code, answer.content) == (204, b"")
    assert len(kept(tmp_path)) == 1


def test_a_refusal_says_nothing(ask, tmp_path):
    """Who sends what is not signed learns no more than that."""
    answer = ask("POST", "/webhooks", content=BODY, headers=signed(b"{}"))
    assert (answer.status_code, answer.content) == (401, b"")
    assert kept(tmp_path) == []


def test_a_long_body_is_refused_before_it_is_held(ask, tmp_path):
    """With its length stated or not; what comes after the limit is not read."""
    body = b'"' + b"x" * 2000 + b'"'
    taken = []

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, 2000, 500):
            taken.append(start)
            yield body[start : start + 500]

    for content in (body, pieces()):
        assert ask("POST", "/webhooks", content=content, headers=signed(body)).status_code == 413
    assert taken == [0, 500, 1000]
    assert kept(tmp_path) == []


def test_other_paths_and_methods_are_none(ask):
    """But one that a watcher may ask."""
    assert ask("GET", "/webhooks").status_code == 405
    assert ask("POST", "/").status_code == 404
    assert ask("GET", "/health").status_code == 204


def test_what_could_not_be_read_later_is_not_taken():
    """A delivery longer than the longest line would be kept and never read."""
    with pytest.raises(SettingsError, match="twice a body"):
        serve(LogSettings(max_line_bytes=2**20))


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "a" * 100])
def test_where_nobody_can_listen_nothing_is_said(tmp_path, host, monkeypatch, capsys):
    """A port in use or a host of no machine is a setting to mend."""
    monkeypatch.setenv("TRACEMILL_WEBHOOK_SECRET", "whsec_" + base64.b64encode(b"k" * 32).decode())
    with listening("127.0.0.1", 0) as taken:
        receiver = LogSettings().receiver.model_copy(
            update={"host": host, "port": taken.getsockname()[1], "spool": tmp_path / "spool"}
        )
        with pytest.raises(SettingsError, match="cannot listen"):
            serve(LogSettings().model_copy(update={"receiver": receiver}))
    assert capsys.readouterr().out == ""
