"""Every exception that we raise on purpose.

    TracemillError
    ├── SettingsError (ValueError)        a setting is wrong; exit code 2
    ├── UsageError (ValueError)           a command was called wrongly; exit code 2
    ├── InputError (ValueError)           something handed to us cannot be used: a batch, a file, a model
    │   ├── BatchError                    a batch that a method refuses
    │   ├── CheckpointError               weights that are missing, damaged or not ours
    │   └── LineError                     one log line that becomes a reject; carries its reason
    ├── LakeError (RuntimeError)          the lake is missing, damaged or of another schema version
    │   ├── LakeMissingError (FileNotFoundError)
    │   └── LakeBusyError (TimeoutError)  another process holds the lock; exit code 20
    └── TrainingError (ArithmeticError)   a number that must be finite is not; exit code 40

A message says what is wrong and where, what was expected, and what to do. Each class also inherits the standard
error that it refines, and pickles.
"""

from __future__ import annotations


class TracemillError(Exception):
    """Root of all errors that we raise on purpose."""


class SettingsError(TracemillError, ValueError):
    """A setting is wrong."""


class UsageError(TracemillError, ValueError):
    """A command or function was called wrongly."""


class InputError(TracemillError, ValueError):
    """Something handed to us cannot be used."""


class BatchError(InputError):
    """A batch that an update method refuses."""


class CheckpointError(InputError):
    """Weights that are missing, damaged or not ours."""


class LineError(InputError):
    """One log line that becomes a reject."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class LakeError(TracemillError, RuntimeError):
    """The lake is missing, damaged or of another schema version."""


class LakeMissingError(LakeError, FileNotFoundError):
    """There is no lake where one was expected."""


class LakeBusyError(LakeError, TimeoutError):
    """Another process holds the lock."""


class TrainingError(TracemillError, ArithmeticError):
    """A number that must be finite is not."""
