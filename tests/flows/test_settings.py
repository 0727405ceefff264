"""One settings file in, frozen objects out, every mistake named."""

import ast
import inspect
import re
import tomllib
import typing
from pathlib import Path

import pytest

from flows.settings import TracemillSettings, load_settings
from flows.template import render_template
from schemas.errors import SettingsError
from schemas.settings import Settings

HOUSE = Path(__file__).resolve().parents[2]
EXAMPLE = HOUSE / "examples" / "refund_desk" / "tracemill.toml"
REQUIRED = '[reward]\nname = "ok"\nsource_kind = "program"\n[model]\nbase = "model"\n'


def written(folder: Path, text: str) -> Path:
    """A settings file with this text."""
    file = folder / "tracemill.toml"
    file.write_text(text, encoding="utf-8")
    return file


def all_settings_classes() -> list[type[Settings]]:
    """Every settings class that can be reached from the root."""
    found, queue = [], [TracemillSettings]
    while queue:
        kind = queue.pop()
        found.append(kind)
        for field in kind.model_fields.values():
            for part in (field.annotation, *typing.get_args(field.annotation)):
                if isinstance(part, type) and issubclass(part, Settings) and part not in found + queue:
                    queue.append(part)
    return found


@pytest.mark.parametrize("file", sorted(HOUSE.glob("examples/*/*.toml")), ids=lambda file: file.parent.name)
def test_every_shipped_settings_file_parses(file):
    """A user copies them."""
    assert load_settings(file).model.policies


def test_paths_are_relative_to_the_settings_file(tmp_path):
    """A night must not depend on the folder it is started in."""
    settings = load_settings(written(tmp_path, REQUIRED + '[logs]\npaths = ["logs/*.jsonl"]\n'))
    assert settings.lake.root == tmp_path / "lake"
    assert settings.model.base == tmp_path / "model"
    assert settings.logs.paths == (str(tmp_path / "logs/*.jsonl"),)


def test_an_unknown_setting_is_refused_by_name(tmp_path):
    """A misspelt threshold must not leave the default in force in silence."""
    with pytest.raises(SettingsError, match=r"gate\.max_drifft"):
        load_settings(written(tmp_path, REQUIRED + "[gate]\nmax_drifft = 0.01\n"))


def test_a_bad_value_is_refused_with_place_and_value(tmp_path):
    """The message carries what was given."""
    with pytest.raises(SettingsError, match=r"gate\.min_admitted.*'many'"):
        load_settings(written(tmp_path, REQUIRED + '[gate]\nmin_admitted = "many"\n'))


@pytest.mark.parametrize(
    "text", ["= 1", "\x00", "[gate", 'a = "\udcff"'.encode("utf-8", "surrogateescape").decode("latin1")]
)
def test_what_is_no_toml_is_refused(tmp_path, text):
    """Never a traceback for a broken file."""
    with pytest.raises(SettingsError):
        load_settings(written(tmp_path, text))


def test_a_missing_file_says_how_to_make_one(tmp_path):
    """The way out is in the message."""
    with pytest.raises(SettingsError, match="tracemill init"):
        load_settings(tmp_path / "none.toml")


def test_what_init_left_open_is_named(tmp_path):
    """Every placeholder at once, not one a try."""
    with pytest.raises(SettingsError, match=r"model\.base, reward\.name, reward\.source_kind"):
        load_settings(written(tmp_path, render_template()))


def test_equal_settings_have_equal_hashes_and_other_ones_do_not(tmp_path):
    """The run id is made of it."""
    one = load_settings(written(tmp_path, REQUIRED))
    same = load_settings(written(tmp_path, "# a comment\n" + REQUIRED))
    other = load_settings(written(tmp_path, REQUIRED + "[gate]\nmin_admitted = 7\n"))
    assert one.sha256() == same.sha256() != other.sha256()


def test_the_template_shows_every_setting_and_parses_once_filled_in(tmp_path):
    """Taking every "# name = value" line as it stands gives the defaults."""
    text = render_template()
    filled = text.replace('name = "..."', 'name = "ok"').replace('source_kind = "..."', 'source_kind = "program"')
    filled = re.sub(r'^base = "\.\.\."', 'base = "model"', filled, flags=re.MULTILINE)
    assert load_settings(written(tmp_path, filled)) == load_settings(written(tmp_path, REQUIRED))
    for kind in all_settings_classes():
        for name in kind.model_fields:
            assert re.search(rf"\b{name}\b", text), f"{kind.__name__}.{name} is not in the template"


def test_a_default_in_the_template_is_valid_toml(tmp_path):
    """A user takes the "# " away, and the file must still parse."""
    shown = re.findall(r"^# (\w+ = \S.*)$", render_template(), flags=re.MULTILINE)
    assert len(shown) > 30
    for line in shown:
        if not line.endswith("# not set") and "..." not in line:
            tomllib.loads(line)


@pytest.mark.parametrize("kind", all_settings_classes(), ids=lambda kind: kind.__name__)
def test_every_default_names_its_source(kind):
    """A paper, a measurement with its date, or the words "convention, untested"."""
    for name, field in kind.model_fields.items():
        assert field.description, f"{kind.__name__}.{name} has no docstring"
        default = field.get_default(call_default_factory=True, validated_data={})
        if not field.is_required() and not isinstance(default, Settings) and default not in (None, (), {}):
            text = " ".join(field.description.split())
            source = re.search(
                r"convention, untested|20\d\d|\.md|whileai|PyTorch|reference repository", text, re.IGNORECASE
            )
            assert source, f"{kind.__name__}.{name} = {field.default!r}: no source in {field.description!r}"


@pytest.mark.parametrize("kind", all_settings_classes(), ids=lambda kind: kind.__name__)
def test_every_setting_is_read_somewhere(kind):
    """An option that nothing reads is a promise that nobody keeps."""
    own = Path(inspect.getfile(kind))
    readers: set[str] = set()
    for package in ("ingest", "validate", "train", "flows", "schemas"):
        for file in (HOUSE / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    readers.add(node.attr)
    unread = set(kind.model_fields) - readers
    assert not unread, f"{own.name}: nothing reads {sorted(unread)}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 2000 + "]" * 2000, "too deep"),
        ("[logs]\nmax_line_bytes = " + "9" * 5000, "not TOML"),
        ('[report]\nfolder = "a\\u0000b"', "a NUL in report.folder"),
        ('[logs.receiver]\nspool = "a\\u0000b"', "a NUL in logs.receiver.spool"),
        ('[logs.csv]\ndate_format = "%Y-%m-%d %d %H:%M"', "logs.csv"),
        ("[logs.redact.patterns]\nx = '" + "(" * 3000 + "a" + ")" * 3000 + "'", "cannot be compiled"),
        ("[logs.redact.patterns]\nx = '(?R)a'", "did not end"),
        ("[deployments.d]\nversion_pattern = '" + "(" * 3000 + "a" + ")" * 3000 + "'", "cannot be compiled"),
    ],
)
def test_settings_that_break_a_parser_are_refused(tmp_path, text, said):
    """One message each, never a traceback."""
    with pytest.raises(SettingsError, match=said):
        load_settings(written(tmp_path, REQUIRED + text + "\n"))
