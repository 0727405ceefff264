"""The command that listens for webhooks."""

from __future__ import annotations

from flows.cli import SettingsFile, app
from flows.settings import DEFAULT_FILE, load_settings


@app.command(epilog="Example: tracemill receive, with TRACEMILL_WEBHOOK_SECRET=whsec_... in the environment")
def receive(settings_file: SettingsFile = DEFAULT_FILE) -> None:
    """Take signed webhooks and keep them in the spool, for `tracemill outcomes` to read; ends with Ctrl-C."""
    from flows.webhook import serve

    serve(load_settings(settings_file).logs)
