"""What a file is, by its first bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.kinds import kind_of

RECORDS = [{"id": n, "request": {"messages": [{"role": "user"}]}, "text": "a\nb"} for n in range(3)]
CHUNK = {"id": "c", "object": "chat.completion.chunk", "choices": [{"delta": {}}]}
DOCUMENT = json.dumps({"traces": RECORDS}, indent=2).encode()
CUT = '{"request":{"messages":[1,2,\n{"id":1}\n{"id":2}\n'


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "lines"),
        (b"\n\n \n", "lines"),
        (b"trace_id,name,value\n", "lines"),
        (b"upstream connect error\n{}\n", "lines"),
        (b'{"a":1}', "lines"),
        (b'{"a":1}\n{"b":2}\n', "lines"),
        (b'\n{"a":1}\n{"b":2}\n', "lines"),
        (b'{"a":NaN}\n{"b":2}\n', "lines"),
        (json.dumps(RECORDS).encode(), "array"),
        (json.dumps(RECORDS).encode() + b"\n", "array"),
        (json.dumps(RECORDS, indent=2).encode(), "array"),
        (json.dumps([float("nan"), *RECORDS], indent=2).encode(), "array"),
        (b"[\n" + b",\n".join(json.dumps(record).encode() for record in RECORDS) + b"\n]\n", "array"),
        (b'[\n{"a":"cut\n{"b":2}\n', "array"),
        (b"[]", "array"),
        (b"[1]\n[2]\n", "lines"),
        (json.dumps([CHUNK, CHUNK]).encode(), "lines"),
        (json.dumps([CHUNK, CHUNK], indent=1).encode(), "values"),
        (json.dumps([{"token": {"id": 1}, "generated_text": None}]).encode(), "lines"),
        (json.dumps([{"delta": "x"}]).encode(), "lines"),
        (json.dumps([{"id": "x", "token": "y"}]).encode(), "array"),
        (DOCUMENT, "values"),
        (DOCUMENT + b"\n" + DOCUMENT, "values"),
        (DOCUMENT[:-5], "values"),
        (json.dumps({"a": float("nan")}, indent=2).encode(), "values"),
        (b'{"traces":[\n{"id":1},\n{"id":2}\n]}\n', "values"),
        (CUT.encode(), "lines"),
        (b'{"a":[\n{"b":1}\n', "lines"),
        (b'{"a":"cut\n{"b":1}\n', "lines"),
        (b'[{"a":1},{"b"\n[{"c":2}]\n', "lines"),
        (b'{"a":\n"upstream connect error"\n{"b":1}\n', "lines"),
        ("\ufeff{}".encode("utf-16-le"), "utf16"),
        ("{}".encode("utf-16-le"), "utf16"),
        ("{}".encode("utf-16-be"), "utf16"),
        (b"PAR1\x15\x04", "parquet"),
    ],
)
def test_the_content_decides(content, kind):
    """Whatever the file is called."""
    assert kind_of(content, is_all=True) == kind


@given(
    st.sampled_from([DOCUMENT, json.dumps(RECORDS, indent=2).encode(), json.dumps(CHUNK).encode() + b"\n{}\n"]),
    st.data(),
)
def test_a_kind_that_is_told_early_stays(content, data):
    """More of the file may be asked for, but no beginning of it tells another kind."""
    size = data.draw(st.integers(1, len(content)))
    assert kind_of(content[:size], is_all=False) in (None, kind_of(content, is_all=True))


@given(st.integers(1, 200), st.integers(2, 5))
def test_a_first_line_that_is_cut_anywhere_leaves_a_file_of_lines(size, num_lines):
    """A broken line never takes its neighbours along as parts of one document."""
    line = json.dumps(RECORDS[0]).encode()
    assert kind_of(line[:size] + b"\n" + b"".join([line + b"\n"] * num_lines), is_all=True) == "lines"


def test_long_lines_after_a_cut_one_are_lines():
    """The second line decides only when it is seen whole."""
    content = b'{"a":[\n{"b":"' + b"x" * 2**21 + b'"}\n{"c":1}\n'
    assert kind_of(content[: 2**20], is_all=False) == "lines"


def test_a_long_array_on_one_line_is_an_array():
    """Its end need not be seen, unless it is one stream."""
    assert kind_of(b'[{"a":1},' + b" " * 2**20, is_all=False) == "array"
    assert kind_of(b"[" + json.dumps(CHUNK).encode() + b" " * 2**20, is_all=False) == "lines"
