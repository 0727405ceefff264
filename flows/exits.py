"""Exit codes: what a shell or a scheduler learns from a command."""

from enum import IntEnum

from schemas.errors import LakeBusyError, SettingsError, TracemillError, UsageError


class Exit(IntEnum):
    """The closed list of exit codes."""

    DONE = 0
    USAGE = 2
    HELD = 10
    SKIPPED = 20
    NO_GO = 30
    FAULT = 40
    INTERRUPTED = 130


DECISION_EXIT = {"go": Exit.DONE, "hold": Exit.HELD, "skipped": Exit.SKIPPED, "no_go": Exit.NO_GO}
"""The exit code of a night by its decision."""


def exit_code_of(error: TracemillError) -> Exit:
    """The exit code for an error that we raised on purpose."""
    if isinstance(error, SettingsError | UsageError):
        return Exit.USAGE
    if isinstance(error, LakeBusyError):
        return Exit.SKIPPED
    return Exit.FAULT
