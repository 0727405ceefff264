"""Findings laid over each other, taken out until none is left."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.detectors import own_detector
from ingest.findings import Remover


def taken(text, **patterns):
    """The text after removal by these patterns, and the counts."""
    counts = Counter()
    remover = Remover([own_detector(kind, pattern) for kind, pattern in patterns.items()], patterns)
    return remover(text, counts), dict(counts)


@pytest.mark.parametrize(
    ("text", "patterns", "cleaned", "counts"),
    [
        ("a12b", {"n": r"\d+"}, "a[n]b", {"n": 1}),
        ("a1 2b", {"n": r"\d"}, "a[n] [n]b", {"n": 2}),
        ("abcd", {"x": "abc", "y": "cd"}, "[x]", {"x": 1}),
        ("abcd", {"x": "ab", "y": "bcd"}, "[y]", {"y": 1}),
        ("abcd", {"x": "ab", "y": "cd"}, "[x][y]", {"x": 1, "y": 1}),
        ("abc", {"x": "b", "y": "abc"}, "[y]", {"y": 1}),
        ("[n] and n", {"n": "n"}, "[n] a[n]d [n]", {"n": 2}),
        ("[n]ab", {"n": ".+"}, "[n][n]", {"n": 1}),
        (r"\nab", {"n": "nab"}, r"\n[n]", {"n": 1}),
        (r"\u0061b", {"n": "ab"}, "[n]", {"n": 1}),
        (r"CORP\nab", {"n": r"CORP\\nab"}, "[n]", {"n": 1}),
        ("abcdefghijklm", {"n": "(?<![a-z])[a-z]"}, "[n]", {"n": 8}),
    ],
)
def test_what_was_found_is_replaced_by_its_kind(text, patterns, cleaned, counts):
    """The longest names what overlaps; brackets that stand there are no text; no escape is cut."""
    assert taken(text, **patterns) == (cleaned, counts)


def test_a_text_without_findings_is_the_same_object():
    """Not a copy."""
    text = "".join(["not", "hing"])
    assert taken(text, n=r"\d")[0] is text


@given(
    st.text(alphabet='ab1 [n]x\\u0@"', max_size=30),
    st.sampled_from([r"\d+", "a.", "n", r"\[", "[^a]b", "(?<=a)b", "a$", "^.", r"\\", r"\w+", "]x?", "(?<!a)b"]),
)
def test_removing_twice_is_removing_once(text, pattern):
    """The second time the same object comes back and nothing is counted."""
    once, _ = taken(text, n=pattern, x="b+")
    twice, counts = taken(once, n=pattern, x="b+")
    assert twice is once
    assert counts == {}
