"""What is found in a text, and what is not."""

import time

import pytest

from ingest.detectors import (
    CARD,
    EMAIL,
    find_cards,
    find_emails,
    find_international_phones,
    own_detector,
    phone_detector,
)

WIDE = "4111111111111111".translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)})


def found(find, text):
    """The texts that were found."""
    return [text[start:end] for start, end in find(text)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("write to alice.b+c@mail.example.com.", "alice.b+c@mail.example.com"),
        ("<alice@example.com>,", "alice@example.com"),
        ("'o'brien@x.co.uk'", "o'brien@x.co.uk"),
        ("to=alice@x.com&cc=", "alice@x.com"),
        ("müller@bücher.de!", "müller@bücher.de"),
        ("请联系alice@example.com谢谢", "alice@example.com"),
        ("用户@例え.jp", "用户@例え.jp"),
        ("root@10.0.0.1", "root@10.0.0.1"),
        ("a@[192.0.2.1] x", "a@[192.0.2.1]"),
        ('so "john doe"@x.com', '"john doe"@x.com'),
        ("bob\uff20x.com", "bob\uff20x.com"),
        ("!#@x.com", "!#@x.com"),
        ("alice@corp.local", "alice@corp.local"),
    ],
)
def test_an_address_is_found(text, address):
    """Whole, and without the signs around it."""
    assert found(find_emails, text) == [address]


@pytest.mark.parametrize(
    "text", ["a@b", "@app.route", "lodash@4.17.21", "W = A @ B.T", "x@y.T", "@", "a@", "alice@exa"]
)
def test_what_is_no_address_stays(text):
    """Decorators, versions, matrices."""
    assert found(find_emails, text) == []


def test_in_a_cut_text_half_an_address_is_one():
    """The rest of it may have stood behind the cut."""
    assert found(lambda text: find_emails(text, is_cut=True), "to alice@exa") == ["alice@exa"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+49 30 901820 now", "+49 30 901820"),
        ("tel:+442079460958.", "+442079460958"),
        ("+1 (650) 253-0000 2024-01-02", "+1 (650) 253-0000"),
        ("+1 555 010 0199", "+1 555 010 0199"),
        ("me+4930901820you", "+4930901820"),
        ("\uff0b49 30 901820", "\uff0b49 30 901820"),
    ],
)
def test_an_international_number_is_found(text, number):
    """What its country's plan holds valid or possible, and no more."""
    assert found(find_international_phones, text) == [number]


@pytest.mark.parametrize("text", ["5 + 12345678 =", "100+1234567", "C++ 2024", "+1", "+999 1234567", "030 901820"])
def test_what_is_no_international_number_stays(text):
    """Sums, versions, unknown countries, numbers without a plus."""
    assert found(find_international_phones, text) == []


def test_a_region_finds_numbers_as_they_are_dialled_there():
    """Of Berlin, in Germany; dates and order numbers stay."""
    detector = phone_detector("DE")
    assert found(detector.find, "Tel. 030 901820, 2024-01-02, order12345") == ["030 901820"]
    assert not phone_detector(None).may_find("030 901820")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4111 1111 1111 1111 123", "4111 1111 1111 1111"),
        ("x4111-1111-1111-1111y", "4111-1111-1111-1111"),
        ("378282246310005", "378282246310005"),
        ("3782 822463 10005.", "3782 822463 10005"),
        ("3056 930902 5904", "3056 930902 5904"),
        ("4222222222222", "4222222222222"),
        ("2223003122003222", "2223003122003222"),
        (WIDE, WIDE),
    ],
)
def test_a_card_number_is_found(text, number):
    """The test numbers of the card schemes, unbroken or in groups."""
    assert CARD.may_find(text)
    assert found(find_cards, text) == [number]


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",
        "0.4111111111111111",
        "1732998453123",
        "20170809091249",
        "2 3 5 7 1 1 1 3 1 7 1 9 2 3",
        "4" * 20,
        "0" * 16,
        "41111111",
    ],
)
def test_what_is_no_card_number_stays(text):
    """A wrong check digit, a fraction, times, a row of small numbers, too many digits, too few."""
    assert found(find_cards, text) == []


def test_an_own_pattern_finds_no_empty_text():
    """What matches nothing but a place is no finding."""
    assert found(own_detector("mark", r"(?=b)|c").find, "abc") == ["c"]


def test_an_own_pattern_that_takes_too_long_takes_the_text(monkeypatch):
    """Nothing can be said about the text, so nothing of it stays."""
    monkeypatch.setattr("ingest.detectors.LONGEST_SEARCH_S", 0.05)
    text = "a" * 40 + "!"
    assert found(own_detector("slow", r"^(a|a|aa)+$").find, text) == [text]


@pytest.mark.parametrize(
    "unit", ["@", "a@", "a.", "+1 ", "+4930901820", "1111 ", "4111 1111 1111 1112 ", '"', "a" * 64 + "@"]
)
def test_no_text_takes_time_that_grows_with_its_square(unit):
    """A second or so for 300,000 characters; the square would be minutes. The bound is wide, to catch a hang alone."""
    text = unit * (300_000 // len(unit))
    begin = time.perf_counter()
    for find in (EMAIL.find, find_international_phones, find_cards):
        list(find(text))
    assert time.perf_counter() - begin < 60
