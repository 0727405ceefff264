"""Prefect's environment for a night without a server: no telemetry, time enough to start, few log lines.

Must run before `prefect` is imported. A value that the user has set stays.
"""

import os

ENVIRONMENT = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_LEVEL": "WARNING",
}
"""The start of the ephemeral server was measured at 13 to 35 s where its default limit is 20 s (2026-11-30)."""


def quiet_prefect(log_level: str | None = None) -> None:
    """Set what is not set; `log_level` in place of the level above."""
    if log_level is not None:
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", log_level)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
