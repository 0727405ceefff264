"""Report and twin on disk."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from tests.validate.report_night import night_report
from tests.validate.report_page import hostile_report
from validate.report.evidence import Estimate
from validate.report.schema import as_text, report_schema
from validate.report.write import as_json, write_report

PUBLISHED = Path(__file__).parents[2] / "docs" / "report.schema.json"


def test_equal_reports_are_equal_byte_for_byte(tmp_path):
    """A hash or a diff of the files shows that the data changed, and nothing else does."""
    first = [path.read_bytes() for path in write_report(night_report(), tmp_path / "a")]
    again = [path.read_bytes() for path in write_report(night_report(), tmp_path / "b")]
    assert first == again


def test_a_changed_number_changes_both_files(tmp_path):
    """The page and its twin tell the same figures."""
    report = night_report()
    other = replace(report, staleness=replace(report.staleness, trust=0.00427))
    before = [path.read_bytes() for path in write_report(report, tmp_path / "a")]
    after = [path.read_bytes() for path in write_report(other, tmp_path / "b")]
    assert all(b"0.00427" in text for text in after)
    assert not any(b"0.00427" in text for text in before)


def test_the_files_are_private_and_nothing_else_is_left(tmp_path):
    """Reports quote production logs: their owner alone may read them."""
    html, twin = write_report(night_report(), tmp_path / "report")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (html, twin)] == [0o600, 0o600]
    assert stat.S_IMODE((tmp_path / "report").stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["report.html", "report.json"]


def test_a_report_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    """A writer that dies before the file is in its place leaves the old report and no half of a new one."""
    html, twin = write_report(night_report(), tmp_path)
    old = html.read_bytes(), twin.read_bytes()

    def die(handle):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(OSError, match="no space"):
        write_report(night_report("hold"), tmp_path)
    assert (html.read_bytes(), twin.read_bytes()) == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_the_twin_keeps_the_published_schema():
    """What docs/report.schema.json promises holds of a plain report and of one full of hostile text."""
    schema = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for report in (night_report(), hostile_report('"</script>\u202e\x00')):
        jsonschema.validate(json.loads(as_json(report)), schema)


def test_a_field_that_the_schema_does_not_know_is_refused():
    """The schema is closed: a twin of another version does not pass by accident."""
    twin = json.loads(as_json(night_report()))
    twin["verdict"]["mood"] = "fine"
    with pytest.raises(jsonschema.ValidationError, match="mood"):
        jsonschema.validate(twin, report_schema())


def test_the_published_schema_is_that_of_the_code():
    """`python -m validate.report.schema > docs/report.schema.json` writes it again."""
    assert PUBLISHED.read_text(encoding="utf-8") == as_text()


def test_every_field_of_the_schema_is_explained():
    """Each field carries the sentence that stands under it in the code."""
    kinds = report_schema()["$defs"].values()
    assert [name for kind in kinds for name, field in kind["properties"].items() if not field.get("description")] == []


def test_the_twin_is_plain_ascii_without_a_number_that_json_has_not():
    """A terminal that prints it obeys nothing in it, and every parser reads it."""
    text = as_json(hostile_report("\u202e\x1b[2J"))
    assert text.isascii()
    assert "\x1b" not in text
    json.loads(text, parse_constant=pytest.fail)


def test_a_number_that_is_none_is_refused():
    """NaN and infinity never reach a report."""
    with pytest.raises(ValueError, match="finite"):
        Estimate(value=float("nan"))
