"""OTLP/JSON values and ids."""

from __future__ import annotations

import base64
import math
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.otel_attributes import decode_attributes, decode_value, hex_id, spelled_id
from schemas.errors import LineError

TRACE = "0af7651916cd43dd8448eb211c80319c"


def reason_of(call) -> str:
    """Why something is refused."""
    with pytest.raises(LineError) as caught:
        call()
    return caught.value.reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "1"}, "1"),
        ({"intValue": "9007199254740993"}, 2**53 + 1),
        ({"intValue": 4}, 4),
        ({"doubleValue": 1.5}, 1.5),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, b"\x00\x01"),
        ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}}, [1, "a"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}}, {"a": True}),
        ({}, None),
        (None, None),
    ],
)
def test_each_kind_of_value_is_decoded_exactly(value, expected):
    """64-bit integers as text keep their digits."""
    found = decode_value(value, "x")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "value",
    [
        {"intValue": 1.5},
        {"intValue": "1.5"},
        {"intValue": True},
        {"intValue": "1" * 30},
        {"doubleValue": "1.5"},
        {"doubleValue": True},
        {"doubleValue": 10**400},
        {"boolValue": 1},
        {"stringValue": 1},
        {"bytesValue": "*"},
        {"bytesValue": 1},
        {"arrayValue": [1]},
        {"arrayValue": {"values": 1}},
        {"kvlistValue": {"values": [1]}},
        {"textValue": "a"},
        {"stringValue": "a", "intValue": "1"},
        "a",
        [1],
    ],
)
def test_a_value_of_another_type_is_refused(value):
    """Nothing is coerced."""
    assert reason_of(lambda: decode_value(value, "x")) == "bad_field"


def test_attributes_are_by_key_and_each_key_stands_once():
    """Two values of one key are no value."""
    entry = {"key": "a", "value": {"stringValue": "x"}}
    assert decode_attributes([entry]) == {"a": "x"}
    assert decode_attributes(None) == {}
    assert reason_of(lambda: decode_attributes([entry, entry])) == "duplicate_key"
    for bad in ({}, [1], [{"value": {}}], [{"key": 1}], "x"):
        assert reason_of(lambda bad=bad: decode_attributes(bad)) == "bad_field"


@given(st.binary(min_size=16, max_size=16).filter(any))
def test_any_trace_id_has_one_spelling(raw):
    """Hex, upper case, with dashes, behind tr- or 0x and as base64."""
    written = [raw.hex(), raw.hex().upper(), str(uuid.UUID(bytes=raw)), f"tr-{raw.hex()}", f"0x{raw.hex()}"]
    written.append(base64.b64encode(raw).decode())
    assert {hex_id(text, 16, "trace_id") for text in written} == {raw.hex()}
    assert {spelled_id(text, 16) for text in written} == {raw.hex()}


@given(st.binary(min_size=8, max_size=8).filter(any))
def test_any_span_id_has_one_spelling(raw):
    """Hex in either case and base64."""
    for text in (raw.hex(), raw.hex().upper(), base64.b64encode(raw).decode()):
        assert hex_id(text, 8, "span_id") == raw.hex()


def test_what_is_no_id_is_refused_or_left_as_it_is():
    """All zero is no id; a free name is one where the system allows names."""
    assert hex_id("0" * 32, 16, "trace_id") is hex_id("", 16, "trace_id") is hex_id(None, 16, "trace_id") is None
    for bad in ("x", 1, TRACE[:-1], TRACE + "00", "é" * 32, [TRACE]):
        assert reason_of(lambda bad=bad: hex_id(bad, 16, "trace_id")) == "bad_field"
        assert spelled_id(bad, 16) == bad
