"""Settings of reading logs and outcomes: the [logs] group of the settings file."""

from __future__ import annotations

from pydantic import Field

from ingest.csv_settings import CsvSettings
from ingest.redact import RedactSettings
from ingest.webhooks import ReceiverSettings, WebhookEvent
from ingest.words import WordSettings
from schemas.settings import Settings


class LogSettings(Settings):
    """Where logs and outcomes lie, and how their lines are read."""

    paths: tuple[str, ...] = ()
    """Log files, folders or glob patterns. Convention, untested: none unless stated."""

    outcomes: tuple[str, ...] = ()
    """Outcome files, folders or glob patterns. Convention, untested: none unless stated."""

    max_line_bytes: int = Field(default=64 * 2**20, ge=1024)
    """Longest line that is read, in bytes; a longer one becomes a reject. Room for 32k tokens with 20 alternatives
    each. Convention, untested."""

    batch_bytes: int = Field(default=64 * 2**20, ge=1)
    """Decompressed bytes of one file that are committed together; memory is a small multiple of it. A commit costs
    as much time as reading some 20 MB. Measured 2026-11-30, example log repeated to 200 MB."""

    max_processes: int | None = Field(default=None, ge=1)
    """Most processes that read large files side by side, each with memory for two batches; unset, one a core.
    Convention, untested."""

    format: str | None = None
    """Format of every line, by a name of docs/formats.md; unset, told by content. Convention, untested."""

    assemble_tokens: int = Field(default=4 * 2**20, ge=1)
    """Logged tokens of traces that are put together and committed together. Convention, untested."""

    holdout_share: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Share of asks whose traces are never trained on, by the hash of the ask. Convention, untested."""

    user_salt_env: str = Field(default="TRACEMILL_USER_SALT", min_length=1)
    """Environment variable with the salt of user hashes; unset, the lake keeps a random one in `user_salt`.
    Convention, untested."""

    redact: RedactSettings = RedactSettings()
    """What is taken out of every text before it is written. Convention, untested: nothing unless stated."""

    full_exports: tuple[str, ...] = ()
    """Patterns of outcome files that are written anew as a whole each time; a score that such a file no longer holds
    is withdrawn. Each is committed, and so held in memory, as a whole. Convention, untested: none unless stated."""

    csv: CsvSettings = CsvSettings()
    """How CSV files with outcomes are written. Convention, untested."""

    words: WordSettings = WordSettings()
    """What labels are worth, and what other systems' words mean. Convention, untested."""

    webhooks: dict[str, WebhookEvent] = Field(default_factory=dict)
    """Which webhook events are outcomes, by the `type` in their body; others hold nothing to keep. Convention,
    untested: none unless stated."""

    receiver: ReceiverSettings = ReceiverSettings()
    """The endpoint that takes webhooks. Convention, untested."""
