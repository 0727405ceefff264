"""The pages on ingest say what the code does: names, reasons, settings, links and examples."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ingest.csv_settings import CsvSettings
from ingest.formats.detect import FORMATS, RecordReader, all_formats
from ingest.formats.scores import score_formats
from ingest.meaning import Deployment
from ingest.outcome import Outcome
from ingest.redact import RedactSettings
from ingest.sampling import SamplingDefaults
from ingest.settings import LogSettings
from ingest.webhooks import ReceiverSettings, WebhookEvent
from ingest.words import USUAL, WordSettings
from schemas.reasons import REASONS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / f"{name}.md").read_text("utf-8") for name in ("formats", "outcomes", "redaction", "stitching")}
GROUPS = (
    LogSettings,
    CsvSettings,
    WordSettings,
    RedactSettings,
    ReceiverSettings,
    WebhookEvent,
    Deployment,
    SamplingDefaults,
)
FOREIGN = {
    "api_key",
    "decoder_input_details",
    "logprob_start_len",
    "model_group",
    "request_preview",
    "response_preview",
    "return_log_probs",
    "return_logprob",
    "return_meta_info",
    "stop_condition",
    "to_record",
    "token_logprob",
}
"""Names that no code of ours reads: switches of servers, fields that are left alone, and a misspelling."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[*/]|\.py$|\.jsonl$")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_SAID = re.compile(r"\b(?:reject|note|fault|noted as|noted|rejected as|refused as) `([a-z_0-9]+)`")


def prose(page: str) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", PAGES[page])


def blocks(language: str) -> Iterator[tuple[str, str, str]]:
    """Page, nearest heading and text of each block of that language."""
    for page, text in PAGES.items():
        for match in _BLOCK.finditer(text):
            if match[1] == language:
                above = [heading for heading in _HEADING.finditer(text) if heading.start() < match.start()]
                yield page, above[-1][1], match[2]


def settings_of(text: str) -> LogSettings:
    """The [logs] group of an example of settings."""
    return LogSettings.model_validate(tomllib.loads(text).get("logs", {}))


def named_in(heading: str) -> str | None:
    """The format that a heading names first."""
    names = {known.name for known in all_formats(USUAL, {})}
    return next((name for name in _CODE.findall(heading) if name in names), None)


@pytest.mark.parametrize("name", [known.name for known in (*FORMATS, *score_formats(USUAL, {}))])
def test_every_format_has_a_heading_of_its_own(name):
    """What `--format` takes is what the pages explain."""
    headings = [heading for page in ("formats", "outcomes") for heading in _HEADING.findall(PAGES[page])]
    assert sum(f"`{name}`" in heading for heading in headings) == 1


def test_every_format_of_logs_stands_in_the_first_table():
    """Whoever opens the page sees at once whether their log is read."""
    first = PAGES["formats"].split("## Files")[0]
    assert [known.name for known in FORMATS if f"`{known.name}`" not in first] == []


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_calls_a_reject_note_or_fault_is_a_reason(page):
    """A reason that is not in the closed list cannot be asked for."""
    assert sorted(set(_SAID.findall(prose(page))) - REASONS.keys()) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_name_with_underscores_is_one_that_the_code_knows(page):
    """What was renamed or removed in the code is found in the pages: reasons, columns, settings and fields of logs."""
    sources = [path for folder in ("ingest", "schemas", "validate") for path in (DOCS.parent / folder).rglob("*.py")]
    known = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))} | FOREIGN
    names = {name for code in _CODE.findall(prose(page)) if not _FILE.search(code) for name in _NAME.findall(code)}
    assert sorted(names - known) == []


def test_every_setting_is_mentioned():
    """A setting that no page mentions is found by nobody."""
    pages = ("formats", "outcomes", "redaction")
    said = {code.rpartition(".")[2] for page in pages for code in _CODE.findall(prose(page))}
    said |= {word for _, _, text in blocks("toml") for word in re.findall(r"\w+", text)}
    assert [name for group in GROUPS for name in group.model_fields if name not in said] == []


def test_each_example_of_settings_is_taken():
    """An example that is pasted into the settings file must be accepted."""
    examples = [settings_of(text) for _, _, text in blocks("toml")]
    assert len(examples) == 5
    assert examples[-1].redact.detectors == ("email", "phone", "card", "secret")


def test_each_example_line_is_read_as_the_format_of_its_section():
    """The examples are lines that can be logged as they stand."""
    read = {}
    for page, heading, text in blocks("json"):
        name = named_in(heading)
        if name is not None:
            (record,) = RecordReader(formats=all_formats(USUAL, {}))(text.encode())
            read[name] = "outcome" if isinstance(record, Outcome) else record.log_format
        else:
            assert msgspec.json.decode(text), page
    assert read == {name: name for name in read}
    assert len(read) >= 2


def test_the_example_of_a_webhook_is_the_outcome_that_the_page_says():
    """Settings and delivery stand next to each other: together they give a 0 for the ask."""
    settings = next(found for _, _, text in blocks("toml") if (found := settings_of(text)).webhooks)
    (line,) = [text for _, heading, text in blocks("json") if heading == "Webhooks"]
    (outcome,) = RecordReader(formats=all_formats(settings.words, settings.webhooks))(line.encode())
    assert (outcome.business_key, outcome.value, outcome.label, outcome.event_id) == ("ask-41", 0.0, "open", "evt-77")


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    """A heading that was renamed breaks the links to it."""
    anchors = {f"{name}.md": {_anchor(heading) for heading in _HEADING.findall(PAGES[name])} for name in PAGES}
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[page]):
        file, _, anchor = target.partition("#")
        assert "://" in target or (DOCS / (file or f"{page}.md")).is_file(), target
        assert not anchor or anchor in anchors[file or f"{page}.md"], target
