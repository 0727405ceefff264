"""What finds personal data in a text: e-mail addresses, phone and card numbers, own patterns.

Each finder takes a text and yields half-open spans; spans may overlap, and none is empty. The time of the built-in
ones grows with the length of the text, whatever stands in it: a log line is written by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ingest.patterns import GIVEN_UP, compiled

Span = tuple[int, int]
Find = Callable[[str], Iterator[Span]]

LONGEST_SEARCH_S = 2.0
"""Seconds that one own pattern may take for one text. Convention, untested."""


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of finding."""

    kind: str
    """Its name; a finding is replaced by it in brackets."""
    may_find: Callable[[str], bool]
    """A quick look that is never wrong when it says no."""
    find: Find


# E-mail. RFC 5321 and 6531, but for quoted names and for signs that are far likelier to stand before an address
# than in it (= / & { and their like): they count only where the name has nothing else. No validator has a say: an
# address that nobody could deliver to names its owner all the same, and so does one of a private domain.
_AT = re.compile("[@\uff20\ufe6b]")
_NAME = re.compile(r"[A-Za-z0-9._%+~'\-\u00aa\u00b5\u00ba\u00c0-\u0dff]{1,64}")
_ANY_NAME = re.compile(r"""[^\s"(),:;<>@\[\]\\\uff20\ufe6b\ufdd0]{1,64}""")
_DOT = "[.\u3002\uff0e\uff61]"
_DOMAINS = (
    re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.){1,126}(?:xn--[A-Za-z0-9-]{1,59}|[A-Za-z]{2,63})"),
    re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9])|\[[0-9A-Za-z:.]{2,45}\]"),
    re.compile(
        rf"(?:[^\s\x00-\x2c\x2e\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\xa0\u3002\uff0e\uff61\ufdd0]{{1,63}}{_DOT}){{1,126}}"
        r"[^\s\x00-\x40\x5b-\x60\x7b-\xa0\u2000-\u206f\u3000-\u303f\uff00-\uff20\ufdd0]{2,63}"
    ),
)
_CUT_DOMAIN = re.compile(r"""[^\s"'<>(),;@\[\]{}\\\ufdd0]{0,255}""")


def find_emails(text: str, *, is_cut: bool = False) -> Iterator[Span]:
    """E-mail addresses; in a text that may be cut anywhere, also those whose domain has no end yet."""
    for at in _AT.finditer(text):
        start = _name_start(text, at.start())
        if start is None:
            continue
        domain = next((found for pattern in _DOMAINS if (found := pattern.match(text, at.end()))), None)
        if domain is None and is_cut:
            domain = _CUT_DOMAIN.match(text, at.end())
        if domain is not None:
            yield start, domain.end()


def _name_start(text: str, at: int) -> int | None:
    """Where the name before an at sign begins; None when there is none."""
    backwards = text[max(at - 64, 0) : at][::-1]
    if backwards.startswith('"'):
        opening = backwards.find('"', 1)
        return at - opening - 1 if opening > 1 else None
    name = _NAME.match(backwards)
    if name is not None:
        inner = name.group().rstrip("'.-")  # backwards: what leads is quotes and dashes of the text around it
        if inner:
            return at - len(inner)
    name = _ANY_NAME.match(backwards)
    return None if name is None else at - name.end()


def _has_at(text: str) -> bool:
    return "@" in text or "\uff20" in text or "\ufe6b" in text


EMAIL = Detector("email", _has_at, find_emails)


# Phone. phonenumbers judges; what it is asked about is found here, since its own matcher reads 4 MB/s.
_GAP = (
    r"[ \u00a0\u2007\u2009\u202f\u3000().\-/\u00ad\u2010-\u2015\u2212\uff08\uff09\uff0d"
    r"\u200b-\u200d\u202a-\u202e\u2060\u2066-\u2069]{0,4}"
)
_INTERNATIONAL = re.compile(rf"[+\uff0b]{_GAP}\d(?:{_GAP}\d){{5,17}}")
_NATIONAL = re.compile(rf"(?<![\w+\uff0b.])\(?\d(?:{_GAP}\d){{4,17}}(?!\w)")
_GROUP_END = re.compile(r"\d(?!\d)")
_MOST_GROUPS = 6


def _has_international(text: str) -> bool:
    return ("+" in text or "\uff0b" in text) and _INTERNATIONAL.search(text) is not None


def find_international_phones(text: str) -> Iterator[Span]:
    """Phone numbers with a plus and a country code: whatever has a length that its country uses."""
    for match in _INTERNATIONAL.finditer(text):
        before = text[max(match.start() - 2, 0) : match.start()].rstrip()
        is_sum = match.group()[1].isspace() or before[-1:].isdecimal()
        length = _phone_length(match.group(), is_sum)
        if length:
            yield match.start(), match.start() + length


@lru_cache(maxsize=65536)
def _phone_length(candidate: str, is_sum: bool) -> int:
    """How much of a candidate is a phone number: the most that is valid, else the most that is possible, else 0.

    What may be a sum, such as 5 + 12345678, must be valid.
    """
    import phonenumbers

    possible = 0
    ends = [match.end() for match in _GROUP_END.finditer(candidate)]
    for end in ends[: -_MOST_GROUPS - 1 : -1]:
        try:
            number = phonenumbers.parse(candidate[:end], None)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return end
        if not possible and not is_sum and phonenumbers.is_possible_number(number):
            possible = end
    return possible


def phone_detector(region: str | None) -> Detector:
    """Finds international numbers, and those that are valid as one dials them within the region."""
    if region is None:
        return Detector("phone", _has_international, find_international_phones)
    from phonenumbers import PhoneNumberMatcher

    def find(text: str) -> Iterator[Span]:
        yield from find_international_phones(text)
        for window in _NATIONAL.finditer(text):
            for match in PhoneNumberMatcher(window.group(), region):
                yield window.start() + match.start, window.start() + match.end

    return Detector("phone", _has_digits, find)


# Card. ISO/IEC 7812-1: 13 to 19 digits, the first 3 to 6 for what pays (2 in one range), the last a Luhn check digit.
_CARD_GAP = r"[ \u00a0\u2007\u202f\u3000.\-\u2010-\u2015\uff0d]{1,3}"
# The first digit stands before the look behind it: so the search leaps from digit to digit.
_CARD = re.compile(
    rf"\d(?<!\d\d)(?<!\d[.,]\d)(?:\d{{12,18}}"
    rf"|\d{{3}}{_CARD_GAP}\d{{4}}{_CARD_GAP}\d{{4}}{_CARD_GAP}(?:\d{{4}}{_CARD_GAP}\d{{1,3}}|\d{{1,4}})"
    rf"|\d{{3}}{_CARD_GAP}\d{{6}}{_CARD_GAP}\d{{4,5}})(?!\d)"
)
_SIXTEEN = re.compile(rf"\d{{4}}{_CARD_GAP}\d{{4}}{_CARD_GAP}\d{{4}}{_CARD_GAP}\d{{4}}(?!\d)")
_DIGITS = re.compile(r"\d{4}")
_ASCII_DIGITS = re.compile("[0-9]{4}")


def _has_digits(text: str) -> bool:
    return (_ASCII_DIGITS if text.isascii() else _DIGITS).search(text) is not None


def find_cards(text: str) -> Iterator[Span]:
    """Payment card numbers: unbroken, or in the groups that cards are printed in."""
    for match in _CARD.finditer(text):
        if _is_card(match.group()):
            yield match.span()
        elif (shorter := _SIXTEEN.match(text, match.start())) and _is_card(shorter.group()):
            yield shorter.span()  # what follows is something else, such as its check code


def _is_card(written: str) -> bool:
    digits = [int(character) for character in written if character.isdecimal()]
    if digits[0] == 2 and not (len(digits) == 16 and 2221 <= int("".join(map(str, digits[:4]))) <= 2720):
        return False  # times and dates begin with a 2, and of cards only this range of one scheme
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return digits[0] in range(2, 7) and len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


CARD = Detector("card", _has_digits, find_cards)


def own_detector(kind: str, pattern: str) -> Detector:
    """Finds what an own pattern matches; one in which that takes too long or all memory goes as a whole."""
    expression = compiled(pattern)

    def find(text: str) -> Iterator[Span]:
        try:
            for match in expression.finditer(text, timeout=LONGEST_SEARCH_S):
                start, end = match.span()
                if start < end:
                    yield start, end
        except GIVEN_UP:
            yield 0, len(text)

    return Detector(kind, lambda _text: True, find)
