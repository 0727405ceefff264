"""The page: what it shows, what it never does, and that foreign text stays text."""

import re
import unicodedata
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validate.report_night import night_report
from tests.validate.report_page import Page, hostile_report
from validate.report.evidence import Estimate
from validate.report.render import render
from validate.report.sections import gravest

EVIL = "</title></style><script>alert(1)</script>\"'><svg onload=x>{{ 7*7 }}&#x3c;\u202e\x00"
FETCHING = {"script", "link", "img", "iframe", "object", "embed", "video", "audio", "source", "base", "form", "style"}


@pytest.fixture(scope="module")
def text():
    """The page of the example night."""
    return render(night_report())


@pytest.fixture(scope="module")
def page(text):
    """The same page taken apart."""
    return Page(text)


def test_the_page_runs_nothing_and_asks_nobody(text, page):
    """No script, nothing that fetches, no address, no event handler: it opens the same without a network."""
    assert {e.tag for e in page.elements} & FETCHING == {"style"}
    assert not re.search(r"https?:|//[a-z]|url\(|@import|javascript:", text, re.IGNORECASE)
    links = [e.attributes["href"] for e in page.elements if "href" in e.attributes]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not [name for e in page.elements for name in e.attributes if name.startswith("on") or name == "src"]


def test_the_page_forbids_itself_every_source(page):
    """The content policy proves to the reader that the page phones nobody."""
    policy = next(e for e in page.named("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@pytest.mark.parametrize(
    ("decision", "word"),
    [("go", "GO"), ("hold", "HOLD"), ("no_go", "NO-GO"), ("skipped", "SKIPPED"), ("undecided", "UNDECIDED")],
)
def test_the_first_heading_is_the_verdict(decision, word):
    """Three seconds are enough: the word, why, and what would change it."""
    page = Page(render(night_report(decision)))
    first = page.named("h1")[0]
    assert word in first.children[0].text
    assert page.named("title")[0].text.startswith(word)
    assert (
        "148 of 800 traces may train v109" in next(e for e in page.elements if e.attributes.get("class") == "why").text
    )


def test_every_figure_is_read_aloud(page):
    """Each drawing has a title and a description, and says that it is an image."""
    drawings = page.named("svg")
    assert len(drawings) > 30
    for drawing in drawings:
        assert [child.tag for child in drawing.children[:2]] == ["title", "desc"]
        assert drawing.children[0].text
        assert drawing.attributes["role"] == "img"


def test_every_table_is_read_aloud(page):
    """Each table has a caption, each header a scope, and each scrolling box can be reached by keyboard."""
    for table in page.named("table"):
        assert table.children[0].tag == "caption"
    assert all(header.attributes.get("scope") in {"col", "row"} for header in page.named("th"))
    boxes = [e for e in page.elements if e.attributes.get("class") == "scroll"]
    names = {e.attributes.get("id") for e in page.elements}
    assert all(box.attributes["tabindex"] == "0" and box.attributes["aria-labelledby"] in names for box in boxes)


def test_headings_go_down_one_level_at_a_time(page):
    """A reader who jumps from heading to heading misses no level, and no id is given twice."""
    levels = [int(e.tag[1]) for e in page.named("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    targets = {e.attributes["href"][1:] for e in page.named("a")}
    assert targets <= set(ids)


def test_what_was_not_measured_is_grey_and_says_so(text):
    """A number that is missing is never shown as 0 and never in green."""
    report = night_report()
    blind = replace(report.judge, is_measured=False, headline="Nobody knows how good the judge is.")
    row = replace(report.checks[4], estimate=Estimate(value=None), status="not_measured")
    page = render(replace(report, judge=blind, checks=(row,)))
    section = page[page.index('<section id="judge"') : page.index('<section id="concentration"')]
    assert '<span class="unmeasured">NOT MEASURED</span>' in section
    assert "mark ok" not in section
    gate = page[page.index('<section id="gate"') : page.index('<section id="logprobs"')]
    assert '<span class="unmeasured">NOT MEASURED</span>' in gate
    assert "mark ok" not in gate


def test_a_missing_measurement_outranks_a_good_one():
    """One gap is enough to take the green from a section."""
    assert gravest("ok", "not_measured") == "not_measured"
    assert gravest("not_measured", "warn") == "warn"


def test_hostile_text_stays_text(harmless):
    """Markup, quotes, template braces and control characters from a log change no element and no attribute."""
    page = Page(render(hostile_report(EVIL)))
    assert page.skeleton() == harmless
    assert "alert(1)" in page.named("title")[0].text + "".join(e.text for e in page.elements)
    assert "49" not in next(e for e in page.elements if e.attributes.get("class") == "why").text


@pytest.fixture(scope="module")
def harmless():
    """The elements of a page whose foreign texts are all one letter."""
    return Page(render(hostile_report("x"))).skeleton()


@settings(max_examples=8, deadline=None)
@given(text=st.text(min_size=1, max_size=30).filter(str.strip))
def test_no_text_can_change_the_page(harmless, text):
    """Whatever a log says, the page has the same elements, and no character that hides or reorders."""
    rendered = render(hostile_report(text))
    assert Page(rendered).skeleton() == harmless
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Cn"} for c in rendered if c != "\n")


def test_equal_reports_give_equal_pages(text):
    """Nothing of the clock, the machine or the order of a set is in the page."""
    assert render(night_report()) == text


def test_the_example_is_far_below_its_limit(text):
    """One file under 300 KB."""
    assert len(text.encode()) < 120_000
