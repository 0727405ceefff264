"""The command line as a user meets it: help, exit codes, one message for a refusal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import flows.cli_export
import flows.cli_read
import flows.cli_receive  # noqa: F401 - adds its command
from flows.cli import app

HOUSE = Path(__file__).resolve().parents[2]
COMMANDS = sorted(get_command(app).commands)


def tracemill(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "flows", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_commands_are_those_of_the_readme():
    """A command that the README does not name is one that nobody finds."""
    readme = (HOUSE / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"`{command}" in readme or f"{command} " in readme, command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    """The example runs from the folder of the README."""
    found = get_command(app).commands[command]
    assert found.help
    assert (found.epilog or "").startswith(f"Example: tracemill {command}")
    for parameter in found.params:
        assert parameter.name == "help" or getattr(parameter, "help", None), f"{command} {parameter.name}"


def test_a_refusal_is_one_message_and_exit_code_2(tmp_path):
    """No traceback for a user's mistake."""
    done = tracemill("policies", "--settings", "none.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "no settings file" in done.stderr
    assert "tracemill init" in done.stderr


@pytest.mark.parametrize("arguments", [["foo"], ["ingest", "--nope"], ["check"], ["sql", "x", "--format", "xml"]])
def test_a_wrong_command_line_is_one_message_and_exit_code_2(tmp_path, arguments):
    """Whichever click the command line stands on."""
    done = tracemill(*arguments, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "Usage: tracemill" in done.stderr


def test_debug_shows_the_traceback(tmp_path):
    """Whoever mends it wants to see it."""
    assert "Traceback" in tracemill("policies", "--settings", "none.toml", "--debug", cwd=tmp_path).stderr


def test_init_makes_a_place_to_begin_and_never_overwrites(tmp_path):
    """A second init must not lose a user's settings."""
    assert tracemill("init", "desk", cwd=tmp_path).returncode == 0
    before = (tmp_path / "desk" / "tracemill.toml").read_bytes()
    again = tracemill("init", "desk", cwd=tmp_path)
    assert again.returncode == 2
    assert (tmp_path / "desk" / "tracemill.toml").read_bytes() == before


def test_reading_commands_need_neither_torch_nor_prefect(tmp_path):
    """They start in a second because they import neither."""
    code = (
        "import sys; import flows.cli, flows.cli_read; "
        "print([name for name in ('torch', 'transformers', 'prefect') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_doctor_names_a_missing_settings_file(tmp_path):
    """It looks at everything else all the same."""
    done = tracemill("doctor", "--json", cwd=tmp_path)
    found = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert done.returncode == 40
    assert not found["settings"]["ok"]
    assert found["package names"]["ok"]
