"""The loop on the page is short, runs, learns, and prints what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "own_loop.md"


def blocks(language):
    """The code blocks of the page in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def ran():
    """What the code of the page left behind."""
    left = {}
    exec(compile(blocks("python")[0], str(PAGE), "exec"), left)  # noqa: S102 - the page is ours
    return left


def test_the_loop_has_at_most_thirty_lines_beside_its_blank_ones():
    """As the page that names it says."""
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


def test_the_loop_learns(ran):
    """From one in four to nearly always."""
    assert ran["accuracy"] > 0.9


def test_the_page_shows_what_the_loop_prints(ran):
    """The words of the report, and its figures to a part in a hundred: sums differ in their last digits by machine."""
    number = r"\d+(?:\.\d+)?(?:e-?\d+)?"
    (shown,), printed = blocks("text"), str(ran["update"])
    assert re.sub(number, "#", shown.strip()) == re.sub(number, "#", printed)
    figures = [[float(found) for found in re.findall(number, text)] for text in (shown, printed)]
    assert figures[0] == pytest.approx(figures[1], rel=0.01)
