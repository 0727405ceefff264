"""A webhook that came in: verified on its raw bytes, then kept, then acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook, WebhookVerificationError

from ingest.spool import Spool
from schemas.errors import InputError, SettingsError


class Receiver:
    """Takes deliveries of one or several signing secrets.

    The signature and the time of the attempt are checked by the library of Standard Webhooks, whose tolerance is five
    minutes: an older attempt is a replay and is refused. Within them the same delivery may come again, as the sender
    cannot know that it was kept; it is kept again, and read as one event.
    """

    def __init__(self, secrets: Sequence[str], spool: Spool) -> None:
        self._verifiers = [_verifier(secret) for secret in secrets]
        self._spool = spool

    def take(self, headers: Mapping[str, str], body: bytes, *, now: datetime) -> HTTPStatus:
        """The answer to a delivery: NO_CONTENT once it is on the disk.

        `headers` have lower-case names. UNAUTHORIZED is a bad signature or a replay, BAD_REQUEST a body that is no
        JSON, SERVICE_UNAVAILABLE a disk that does not take it: the sender tries again.
        """
        if not any(_is_signed(verifier, headers, body) for verifier in self._verifiers):
            return HTTPStatus.UNAUTHORIZED
        try:
            self._spool.keep(headers, body, now=now)
        except InputError:
            return HTTPStatus.BAD_REQUEST
        except OSError:
            return HTTPStatus.SERVICE_UNAVAILABLE
        return HTTPStatus.NO_CONTENT


def secrets_from(environment: Mapping[str, str], variable: str) -> list[str]:
    """The signing secrets in an environment variable, parted by spaces; SettingsError when there is none."""
    secrets = environment.get(variable, "").split()
    if not secrets:
        raise SettingsError(
            f"environment variable {variable} is not set; expected the signing secret of the sender (whsec_...): set "
            "it, or name another under logs.receiver.secret_env"
        )
    return secrets


def _verifier(secret: str) -> Webhook:
    try:
        return Webhook(secret)
    except (EmptyWebhookSecretError, ValueError) as error:
        # Neither the secret nor the error's own words are shown: they could hold part of it.
        raise SettingsError(
            "a signing secret is no base64; expected whsec_ and base64 as the sender shows it: copy it again"
        ) from error


def _is_signed(verifier: Webhook, headers: Mapping[str, str], body: bytes) -> bool:
    try:
        verifier.verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # a malformed signature or body is no signature
        return False
    return True
