"""The HTTP endpoint before the spool: `POST /webhooks`, and `GET /health` for whoever watches it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from flows.console import one_line, say
from ingest.receiver import Receiver, secrets_from
from ingest.spool import Spool
from schemas.errors import SettingsError

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingest.settings import LogSettings

BODY_SECONDS = 30
"""Longest time that a body may take to arrive; senders give up after 15 to 30 s. Convention, untested."""

MAX_CONNECTIONS = 64
"""Deliveries at once; more are told to come again, so that memory stays bounded. Convention, untested."""


def application(receiver: Receiver, *, max_body_bytes: int) -> Starlette:
    """The endpoint as an ASGI application; it answers with a status and nothing else."""

    async def take(request: Request) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request, max_body_bytes)
        except TimeoutError:
            return Response(status_code=HTTPStatus.REQUEST_TIMEOUT)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it
        if body is None:
            return Response(status_code=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        status = await run_in_threadpool(receiver.take, dict(request.headers), body, now=datetime.now(UTC))
        return Response(status_code=status)

    async def health(request: Request) -> Response:  # noqa: ARG001 - the signature is Starlette's
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return Starlette(routes=[Route("/webhooks", take, methods=["POST"]), Route("/health", health, methods=["GET"])])


async def _body(request: Request, limit: int) -> bytes | None:
    """The raw body; None as soon as it is longer than the limit."""
    pieces, num_bytes = [], 0
    async for piece in request.stream():
        num_bytes += len(piece)
        if num_bytes > limit:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def serve(logs: LogSettings) -> None:
    """Listen until the process is told to stop; refuses to take what could not be read later."""
    import uvicorn

    settings = logs.receiver
    # A delivery is spooled as one line, its body as JSON beside the headers.
    if 2 * settings.max_body_bytes > logs.max_line_bytes:
        raise SettingsError(
            f"logs.receiver.max_body_bytes is {settings.max_body_bytes} and logs.max_line_bytes {logs.max_line_bytes}; "
            "expected lines of twice a body at least, or a delivery that was taken could not be read: raise "
            "logs.max_line_bytes"
        )
    receiver = Receiver(secrets_from(os.environ, settings.secret_env), Spool(settings.spool))
    config = uvicorn.Config(
        application(receiver, max_body_bytes=settings.max_body_bytes),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
    )
    with listening(settings.host, settings.port) as door, contextlib.suppress(KeyboardInterrupt):
        say(
            f"listening on http://{settings.host}:{settings.port}/webhooks, deliveries go to "
            f"{one_line(str(settings.spool))}"
        )
        uvicorn.Server(config).run(sockets=[door])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at the first address of the host; `SettingsError` where none can."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            f"logs.receiver: cannot listen on {host!r}, port {port} ({error}); expected an address of this machine and "
            "a free port above 1023: mend host or port, or stop what listens there"
        ) from error
