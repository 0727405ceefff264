"""Arrays and documents to values, wherever the pieces end."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ingest.json_values import WAIT, ValueFraming, end_of_valid
from ingest.line import Line

SPACE = st.text(" \t\r\n", max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-9, 999) | st.text('"\\[]{},:\n\u2028\ud83d x', max_size=6)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text("a[{\"'", max_size=3), v))

SMALL = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2)


def cut(text: bytes, chunk: int, *, limit: int = 2**20, arrays: bool = True) -> tuple[list[Line], ValueFraming, int]:
    """The values of a text that comes in pieces, and how much of it was settled."""
    framing = ValueFraming(limit, 0, enters_arrays=arrays)
    lines, settled = [], 0
    for start in range(0, len(text), chunk):
        found, num_settled = framing.feed(text[start : start + chunk])
        settled = start + num_settled if found else settled
        lines += found
        while again := framing.again(is_end=start + chunk >= len(text)):
            start_again = framing.start
            found, num_settled = framing.feed(again)
            settled = start_again + num_settled if found else settled
            lines += found
    return lines, framing, settled


@given(st.lists(st.tuples(VALUES, SPACE, SPACE, st.sampled_from([None, 1])), max_size=6), st.integers(1, 40))
def test_any_array_in_any_pieces_gives_its_elements(parts, chunk):
    """Each with its own bytes, whatever stands in strings, however it is printed."""
    written = [json.dumps(value, indent=indent).encode() for value, _, _, indent in parts]
    gaps = [(before.encode(), after.encode()) for _, before, after, _ in parts]
    text = b"[" + b",".join(b + w + a for w, (b, a) in zip(written, gaps, strict=True)) + b"]\n"
    lines, framing, settled = cut(text, chunk)
    assert [line.text.strip() for line in lines] == written
    assert [text[line.byte_offset :][: line.num_bytes] for line in lines] == [line.text for line in lines]
    assert not framing.is_in_array
    assert framing.finish() is None
    assert settled == (lines[-1].byte_offset + lines[-1].num_bytes if lines else 0)


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2), max_size=4),
    st.integers(1, 40),
    st.sampled_from([None, 2]),
)
def test_any_documents_one_after_the_other_are_values(documents, chunk, indent):
    """With or without line breaks in them and between them."""
    written = [json.dumps(document, indent=indent).encode() for document in documents]
    lines, framing, _ = cut(b"\n".join(written), chunk)
    assert [line.text for line in lines] == written
    assert framing.finish() is None


@given(
    st.binary(max_size=80).map(lambda b: b.translate(bytes(b'{}[]",\\\n a1:'[i % 12] for i in range(256)))),
    st.integers(1, 9),
)
def test_any_bytes_are_cut_the_same_in_any_pieces(text, chunk):
    """What is no JSON too; no byte but space, commas and brackets of arrays is lost."""
    whole, rest_of_whole, _ = cut(text, len(text) or 1)
    pieces, rest_of_pieces, _ = cut(text, chunk)
    assert pieces == whole
    last, last_of_pieces = rest_of_whole.finish(), rest_of_pieces.finish()
    assert (last and last.finish(rest_of_whole.start)) == (
        last_of_pieces and last_of_pieces.finish(rest_of_pieces.start)
    )
    spans = [(line.byte_offset, line.num_bytes) for line in whole]
    spans += [(rest_of_whole.start, last.num_bytes)] if last else []
    end = 0
    for start, size in [*spans, (len(text), 0)]:
        assert not text[end:start].strip(b" \n,[]")
        end = start + size


def test_an_element_over_the_limit_costs_no_neighbour():
    """Only its head is kept."""
    lines, _, _ = cut(b'[{"a":1},{"b":"' + b"x" * 5000 + b'"},{"c":3}]', 64, limit=1000)
    assert [(line.num_bytes, line.fault is not None) for line in lines] == [(7, False), (5008, True), (7, False)]
    assert len(lines[1].text) == 200


def test_a_broken_element_ends_where_the_next_line_begins():
    """Be it an open string, an open bracket or one of the wrong kind, and however the array is printed."""
    for bad in (b'{"a":"x}', b'{"a":[1}', b'{"a":{]}'):
        for margin in (b"", b"  "):
            good = [margin + b'{"n":1}', margin + b'{"n":2}', margin + b'{"n":3}']
            text = b"[\n" + b",\n".join([good[0], margin + bad, *good[1:]]) + b"\n]"
            for chunk in (3, 1000):
                lines, _, _ = cut(text, chunk)
                assert [line.text for line in lines if line.text.startswith(b'{"n"')] == [g.strip() for g in good]
                assert len(lines) == 4


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), SMALL, min_size=1, max_size=2), min_size=2, max_size=6),
    st.data(),
    st.sampled_from([b"", b"  "]),
    st.booleans(),
    st.sampled_from([120, 2**20]),
)
def test_an_element_that_lost_any_bracket_costs_no_neighbour(elements, data, margin, begins_with_bracket, limit):
    """When it stays open to the end, or beyond the limit, too."""
    written = [json.dumps(element).encode() for element in elements]
    broken = data.draw(st.integers(0, len(written) - 1))
    places = [at for at, byte in enumerate(written[broken]) if byte in b"]}"]
    place = data.draw(st.sampled_from(places))
    good = [text for index, text in enumerate(written) if index != broken and len(text) < 100]
    written[broken] = written[broken][:place] + written[broken][place + 1 :]
    first = b"[" if begins_with_bracket and not margin else b"[\n" + margin
    text = first + (b",\n" + margin).join(written) + b"\n]\n"
    lines, _, _ = cut(text, data.draw(st.integers(1, 60)), limit=limit)
    found = [line.text for line in lines]
    assert [element for element in good if element not in found] == []


def test_what_is_open_at_the_end_is_one_reject_and_its_neighbours_are_not():
    """By the line that begins as its own does."""
    text = b'[\n{"a":1},\n{"broken": [1,2,\n{"b":1},\n{"c":1}\n]\n'
    for chunk in (1, 7, 1000):
        lines, framing, settled = cut(text, chunk)
        assert [line.text.strip() for line in lines] == [b'{"a":1}', b'{"broken": [1,2,', b'{"b":1}', b'{"c":1}']
        assert (framing.finish(), settled) == (None, len(text) - 3)


def test_a_cut_element_with_parts_on_lines_of_their_own_stays_one():
    """Indented or not, for it may go on when the file has grown."""
    for text in (b'[\n  {\n    "a": [\n      {\n', b'[\n{\n"a": [\n{\n"b":1},\n'):
        lines, framing, _ = cut(text, 5)
        assert (lines, framing.start) == ([], text.index(b"{"))


def test_many_open_elements_are_cut_in_time_that_grows_as_they_do():
    """Each at the next one, and the end is not looked through for each."""
    lines, _, _ = cut(b"[\n" + b'{"a":[1,\n' * 50_000, 2**20)
    assert len(lines) == 49_999


def test_beyond_the_limit_an_open_element_ends_before_its_like():
    """Whether that stands in what is held or comes later."""
    for filler in (b"1,", b"1," * 2000):
        text = b'[\n{"broken":[' + filler + b"\n" + b"".join(b'{"n":%d},\n' % n for n in range(300)) + b"]"
        for chunk in (16, 999, 10_000):
            lines, _, _ = cut(text, chunk, limit=1000)
            assert [line.text for line in lines if line.fault is None][-300:] == [b'{"n":%d}' % n for n in range(300)]
            assert len(lines) == 301


def test_a_hundred_thousand_brackets_are_one_broken_value():
    """Followed no further than the limit of depth."""
    text = b'[{"a":1},\n' + b"[" * 100_000 + b'\n{"b":2}]'
    lines, _, _ = cut(text, 2**20)
    assert [line.num_bytes for line in lines] == [7, 100_001, 7]


def test_a_cut_element_is_unfinished():
    """And what was settled ends before it."""
    lines, framing, settled = cut(b'[{"a":1},{"b":', 4)
    assert ([line.text for line in lines], settled, framing.start) == ([b'{"a":1}'], 8, 9)
    last = framing.finish()
    assert last is not None
    assert last.finish(framing.start).text == b'{"b":'


def test_half_a_surrogate_pair_at_the_end_of_a_piece_ends_its_element():
    """The parser waits for the other half, and would find the end of the element in a later piece only."""
    text = rb'[{"a":"\ud83d"},{"b":1}]'
    for chunk in range(1, len(text)):
        lines, _, settled = cut(text, chunk)
        assert [line.text for line in lines] == [rb'{"a":"\ud83d"}', b'{"b":1}']
        assert settled == len(text) - 1


def test_valid_values_are_ended_by_the_parser():
    """The fast path knows the parser's words; were they others, it would only be slow."""
    assert end_of_valid(b'  {"a":[1]} , {"b":2}', 2) == 11
    assert end_of_valid(b"[[]]]", 1) == 3
    assert end_of_valid(b'{"a":[1, {"b"', 0) == WAIT
    assert msgspec.json.decode(b'{"a":[1]}')
