"""Whatever is planted in a text, wherever and however it is written: nothing of it comes out."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ingest.redact import Redactor, RedactSettings

REDACTOR = Redactor(RedactSettings(detectors=("email", "phone", "card", "secret")))

letters = st.sampled_from("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789")
words = st.text(letters, min_size=1, max_size=12)
emails = st.builds(
    lambda name, sign, rest, host, tld: f"{name}{sign}{rest}@{host}.{tld}",
    words, st.sampled_from([".", "+", "_", "-", "%"]), words, words, st.sampled_from(["com", "co.uk", "de", "museum"]),
)  # fmt: skip
phones = st.builds(
    lambda number, gap: "+" + gap.join(number),
    st.sampled_from([("49", "30", "901820"), ("1", "650", "253", "0000"), ("44", "20", "7946", "0958"), ("81", "3", "1234", "5678")]),
    st.sampled_from(["", " ", "-", ".", "\u00a0"]),
)  # fmt: skip


def card_of(digits, gap):
    """A card number: 15 digits and the check digit that Luhn's rule gives them."""
    total = sum(digit if place % 2 else digit * 2 - 9 * (digit > 4) for place, digit in enumerate(digits))
    number = "".join(map(str, (*digits, -total % 10)))
    return gap.join(number[at : at + 4] for at in range(0, 16, 4))


cards = st.builds(
    lambda first, rest, gap: card_of((first, *rest), gap),
    st.integers(3, 6),
    st.lists(st.integers(0, 9), min_size=14, max_size=14).filter(lambda digits: len(set(digits)) > 1),
    st.sampled_from(["", " ", "-"]),
)
keys = st.builds(
    lambda shape, body: shape[0] + body[: shape[1]],
    st.sampled_from([("ghp_", 36), ("sk_live_", 24), ("AKIA", 16), ("sk-ant-", 40), ("glpat-", 20), ("hf_", 34)]),
    st.text(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), min_size=39, max_size=39).map(
        lambda body: "7" + body
    ),
)
planted = st.one_of(emails, phones, cards, keys)
# What stands around: any text, but for what would make another number of a number, or the middle of a name of a key.
around = st.text(st.characters(exclude_categories=("Nd", "Cs"), exclude_characters="+"), max_size=20)
fences = st.sampled_from([" ", ",", "(", "\n", '"', "'", "\t", ": ", "—", "。", "<", "/ "])
escapes = st.sampled_from([json.dumps, lambda text: json.dumps(text, ensure_ascii=False),
                           lambda text: '"' + "".join(f"\\u{ord(sign):04x}" if ord(sign) < 65536 else sign for sign in text) + '"',
                           lambda text: json.dumps(text).replace("/", "\\/").replace("@", "\\u0040").replace("+", "\\u002B")])  # fmt: skip


@given(around, fences, planted, fences, around)
def test_a_text_holds_nothing_that_was_planted(before, opening, value, closing, after):
    """And redacting it again changes nothing and counts nothing."""
    once = REDACTOR.text(before + opening + value + closing + after)
    assert value not in once
    assert REDACTOR.take_counts()
    assert REDACTOR.text(once) is once
    assert REDACTOR.take_counts() == {}


# An apostrophe between letters belongs to a name.
@given(
    st.text("xyz ,.;:!?()", max_size=20),
    fences.filter(lambda fence: fence != "'"),
    planted,
    fences,
    st.text("xyz ,.;:!?()", max_size=20),
)
def test_what_stands_around_stays(before, opening, value, closing, after):
    """Character for character; one finding is one placeholder."""
    once = REDACTOR.text(before + opening + value + closing + after)
    [kind] = REDACTOR.take_counts()
    assert once == f"{before}{opening}[{kind}]{closing}{after}"


@given(st.lists(planted, min_size=1, max_size=5))
def test_neighbours_hide_nothing(values):
    """Several in a row, a comma between them."""
    once = REDACTOR.text(", ".join(values))
    assert not [value for value in values if value in once]


@given(around, fences, planted, fences, around, st.lists(escapes, min_size=1, max_size=3))
def test_no_escape_and_no_nesting_hides_it(before, opening, value, closing, after, nesting):
    """JSON in a JSON string in a JSON string, as tool arguments are: each layer is valid and holds nothing."""
    layer = before + opening + value + closing + after
    for escape in nesting:
        layer = escape(layer)
    for document in (REDACTOR.json_text(layer), REDACTOR.text(layer)):
        text = document
        assert value not in text
        for _ in nesting:
            text = json.loads(text)
            assert value not in text
    REDACTOR.take_counts()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | planted,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | planted, inner, max_size=4),
    max_leaves=12,
)


def shape(value):
    """A document without its texts; numbers as they were written."""
    if isinstance(value, dict):
        return {"keys": [shape(each) for each in value.values()]}
    return [shape(each) for each in value] if isinstance(value, list) else None if isinstance(value, str) else value


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_a_document_keeps_its_structure(value, is_ascii, indent):
    """Same nesting, same numbers (but for those that are cards), no key twice, and idempotent."""
    document = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    cleaned = REDACTOR.json_text(document, numbers="keep")
    keep = {"parse_int": lambda text: ["int", text], "parse_float": lambda text: ["float", text]}
    assert shape(json.loads(cleaned, **keep)) == shape(json.loads(document, **keep))
    assert REDACTOR.json_text(cleaned, numbers="keep") is cleaned
    REDACTOR.take_counts()
