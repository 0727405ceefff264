"""Decoding a text, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.escapes import Decoded, has_escapes, hides

written_texts = st.lists(
    st.sampled_from(
        ["a", "é", "\\", "\\n", "\\\\u0040", "\\u0040", '\\"', "%40", "%0a", "&#64;", "\\x40", "[", "\ud83d"]
    )
).map("".join)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a\u0040b", "a@b"),
        (r"a\\\\u0040b", "a@b"),
        (r"\n\t\"\/\x41", '\n\t"/A'),
        (r"C:\data", "C:\\data"),
        ("a%40b%0a%", "a@b%0a%"),
        ("a&#64;b&#x2B;", "a@b+"),
    ],
)
def test_an_escape_is_one_character(written, text):
    """JSON at any depth, links and HTML; what stands for no printable sign in a link stays as it is."""
    assert Decoded(written).text == text


def test_a_span_leads_back_to_what_was_written():
    r"""In \n\u0040b the at sign is the second character: six that begin at 2."""
    decoded = Decoded(r"\n\u0040b")
    assert decoded.text == "\n@b"
    assert [decoded.span(place, place + 1) for place in range(3)] == [(0, 2), (2, 8), (8, 9)]
    assert decoded.span(0, 3) == (0, 9)


def test_a_written_span_cuts_no_escape():
    """It begins behind the escape that it would cut, and ends behind one."""
    decoded = Decoded(r"\nab\u0040")
    assert decoded.whole(1, 4) == (2, 4)
    assert decoded.whole(2, 6) == (2, 10)
    assert decoded.whole(0, 2) == (0, 2)


@given(written_texts)
def test_the_pieces_of_a_text_join_to_it(written):
    """Every character lies where the one before it ends, and without escapes nothing is decoded."""
    decoded = Decoded(written)
    spans = [decoded.span(place, place + 1) for place in range(len(decoded.text))]
    assert "".join(written[start:end] for start, end in spans) == written
    assert has_escapes(written) or decoded.text == written


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"a\nb\"", False),
        (r"\u0040", True),
        (r"\/", True),
        ("100%", False),
        ("%40", True),
        ("&#64;", True),
        ("a", False),
    ],
)
def test_only_some_escapes_hide_a_sign(text, answer):
    """A line break hides nothing."""
    assert hides(text) is answer
