"""`tracemill`, and `python -m flows`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NoReturn

import typer

from flows.cli import app
from flows.console import err, printable
from flows.exits import Exit, exit_code_of
from schemas.errors import TracemillError
from warehouse.extensions import DATABASE_ERRORS

WRONG_USAGE: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What a wrong command line raises: click's class, or that of the click which newer versions of typer carry inside."""

FAULTS: tuple[type[Exception], ...] = (OSError, *DATABASE_ERRORS)
"""What the disk and the database raise: not ours, and told like our own."""


def main() -> None:
    """Run the command line; a refusal is one message and an exit code, a traceback only with --debug."""
    for commands in ("flows.cli_read", "flows.cli_receive", "flows.cli_export"):
        importlib.import_module(commands)  # adds its commands to the same app
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        sys.exit(app(args=arguments, prog_name="tracemill", standalone_mode=False))
    except WRONG_USAGE as error:
        error.show()
        sys.exit(Exit.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        err.print("tracemill: interrupted; the same command goes on where this one stopped")
        sys.exit(Exit.INTERRUPTED)
    except TracemillError as error:
        _fail(str(error), exit_code_of(error), debug=debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader went away: nothing to tell it
        sys.exit(Exit.DONE)
    except FAULTS as error:
        _fail(f"{type(error).__name__}: {error}. What was committed before is whole", Exit.FAULT, debug=debug)


def _fail(message: str, code: Exit, *, debug: bool) -> NoReturn:
    if debug:
        raise  # noqa: PLE0704 - called while the error is being handled
    err.print(f"tracemill: {printable(message)}", markup=False)
    sys.exit(code)


if __name__ == "__main__":
    main()
