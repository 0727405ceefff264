"""How numbers and foreign text are written."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from validate.report import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.86125, "86.1%"),
        (0.9999, "99.99%"),
        (0.99999, ">99.99%"),
        (0.00001, "<0.01%"),
        (0.0021, "0.21%"),
        (-0.089, "\u22128.9%"),
        (None, "NOT MEASURED"),
    ],
)
def test_a_share_is_zero_or_whole_only_when_it_is(value, text):
    """Nothing is rounded to 0% or to 100%."""
    assert words.share(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0381, "nats", "0.0381\u00a0nats"),
        (1.1e-11, "nats", "1.1e-11\u00a0nats"),
        (1234567.0, "", "1,234,567"),
        (90.0, "labels", "90\u00a0labels"),
        (0.5, "days", "0.500\u00a0days"),
        (2.0, "", "2.00"),
        (0.49, "reward", "0.490"),
        (None, "nats", "NOT MEASURED"),
    ],
)
def test_a_measurement_has_three_significant_digits_and_its_unit(value, unit, text):
    """Counts are whole, tiny numbers are written with a power of ten."""
    assert words.measure(value, unit) == text


def test_an_interval_is_written_in_the_unit_of_its_value():
    """Shares as percentages, all else as numbers; no end, no interval."""
    assert words.interval(0.1, 0.25, "share") == "[10.0%, 25.0%]"
    assert words.interval(-0.5, 2.0) == "[\u22120.500, 2.00]"
    assert words.interval(None, 2.0) == ""


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.003, "nats", "0.003\u00a0nats"), (0.97, "share", "97%"), (1000.0, "traces", "1,000\u00a0traces")],
)
def test_a_bound_is_written_as_it_was_set(value, unit, text):
    """No digits that nobody typed."""
    assert words.bound(value, unit) == text


@given(st.text())
def test_no_character_of_foreign_text_is_invisible_or_reorders_a_line(text):
    """Whatever a log says, every character that is written can be seen."""
    assert all(
        unicodedata.category(c)[0] != "C" and unicodedata.category(c) not in {"Zl", "Zp"} for c in words.visible(text)
    )


@given(st.text(max_size=200), st.integers(10, 60))
def test_a_clipped_text_needs_no_more_bytes_than_it_may(text, limit):
    """The bound holds for what the page must write, and a text that fits is left alone."""
    written = escape(words.visible(words.clipped(text, limit)))
    assert len(written.encode()) <= limit + len("\u2026".encode())
    if len(escape(words.visible(text)).encode()) <= limit:
        assert words.clipped(text, limit) == text


def test_a_reordering_mark_is_spelled_out():
    """The classic attack of source code: a right-to-left override."""
    assert words.visible("ab\u202ecd\x00\n") == r"ab\u202ecd\u0000 "
