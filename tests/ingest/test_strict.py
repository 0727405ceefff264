"""Each fault that one line can carry: what is kept of it, and what it is called."""

from __future__ import annotations

import math
import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.detect import RecordReader, detect
from ingest.formats.format import keys_of
from ingest.formats.strict import repair
from schemas.errors import LineError
from schemas.reasons import REASONS
from tests.ingest.hand_made import first_call

GOOD = first_call()

HANGS_S = 60.0
"""Wide enough for any machine: what it catches would take minutes to hours."""


def reason_of(text: bytes) -> str:
    """The reason for which a line is refused."""
    with pytest.raises(LineError) as caught:
        RecordReader()(text)
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"upstream connect error", "bad_json"),
        (GOOD[:-40], "bad_json"),
        (GOOD + b"}", "bad_json"),
        (GOOD.replace(b'"done"', b'"d\x00e"'), "bad_json"),
        (b"\x00" * 50, "bad_json"),
        (b"\xef\xbb\xbf" + GOOD, "bad_json"),
        (GOOD.replace(b"done", b"d\xffne"), "bad_unicode"),
        (GOOD.replace(b"refund 41", b"refund \xff"), "bad_unicode"),
        (b'{"a":' * 100_000, "bad_json"),
        (b'{"request":{},"response":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "bad_json"),
        (b"[1,2]", "schema_unknown"),
        (b"null", "schema_unknown"),
        (b'"text"', "schema_unknown"),
        (b"{}", "schema_unknown"),
        (b'{"request":{}}', "schema_unknown"),
        (b'{"level":"info","msg":"started"}', "schema_unknown"),
        (GOOD.replace(b'"temperature":1.0', b'"temperature":NaN,"temperature":1.0'), "duplicate_key"),
        (GOOD.replace(b'"created":1795420800', b'"created":' + b"9" * 5000), "bad_json"),
    ],
)
def test_a_line_that_cannot_be_read_names_its_reason(text, reason):
    """The slow path finds out what the strict one only refused."""
    assert reason_of(text) == reason


@pytest.mark.parametrize("literal", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400"])
def test_a_logprob_that_is_no_number_keeps_its_call(literal):
    """The call is not lost to its trace, and the number is not invented."""
    (call,) = RecordReader()(GOOD.replace(b'"logprob":-0.75', b'"logprob":' + literal))
    values = np.frombuffer(call.token_logprobs or b"", "<f4").tolist()
    assert math.isnan(values[1])
    assert values[2] == -0.0625
    assert set(call.notes) == {"nonfinite_logprob", "nonfinite_number"}


def test_a_parameter_that_is_no_number_is_unknown():
    """NaN as temperature is read as missing."""
    (call,) = RecordReader()(GOOD.replace(b'"temperature":1.0', b'"temperature":NaN'))
    assert call.sampling["temperature"] is None
    assert call.notes == ("nonfinite_number",)


def test_half_a_surrogate_pair_is_replaced_in_text_only():
    """The token ids are untouched."""
    (call,) = RecordReader()(GOOD.replace(b'"done"', b'"d\\ud83dne"'))
    assert call.reply_text == "d\ufffdne"
    assert call.notes == ("lone_surrogate",)
    assert call.token_ids is not None


def test_a_nul_and_a_line_separator_inside_a_string_are_text():
    """Escaped or not, they end no line and no string."""
    (call,) = RecordReader()(GOOD.replace(b'"done"', '"d\\u0000\u2028ne"'.encode()))
    assert (call.reply_text, call.notes) == ("d\0\u2028ne", ())


def test_a_finite_number_beyond_float32_is_infinite_there():
    """As in any cast; it is no measurement."""
    (call,) = RecordReader()(GOOD.replace(b'"logprob":-0.75', b'"logprob":-1e300'))
    assert np.frombuffer(call.token_logprobs or b"", "<f4")[1] == -np.inf


def test_a_line_that_needs_nothing_is_repaired_to_itself():
    """The slow path reads what the strict one reads."""
    repaired, notes = repair(GOOD)
    assert notes == ()
    assert RecordReader()(repaired) == RecordReader()(GOOD)


@given(st.integers(0, len(GOOD)), st.binary(max_size=3), st.integers(0, 5))
def test_any_damage_ends_in_a_call_or_a_reason(position, inserted, removed):
    """Never in a crash, and never in a reason that is not in the list."""
    damaged = GOOD[:position] + inserted + GOOD[position + removed :]
    try:
        assert RecordReader()(damaged)
    except LineError as error:
        assert REASONS[error.reason].scope == "line"  # noqa: PT017 - either end is right


def test_two_keys_that_differ_in_surrogates_only_are_one_key():
    """Neither value is dropped in silence."""
    with pytest.raises(LineError) as caught:
        repair(b'{"a\\ud800":1,"a\\udfff":2}')
    assert caught.value.reason == "duplicate_key"


@pytest.mark.parametrize("digits", [b"0." + b"3" * 5000, b"1" * 5000 + b".5", b"1e-5000", b"-0.0"])
def test_a_number_of_any_length_is_read_or_missing(digits):
    """One beyond a double is no number."""
    repaired, notes = repair(b'{"a":' + digits + b"}")
    value = float(digits)
    assert repaired == (b'{"a":null}' if math.isinf(value) else b'{"a":%r}' % value)
    assert notes == (("nonfinite_number",) if math.isinf(value) else ())


@pytest.mark.parametrize("line", [b"[" * 200_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900, b'{"' + b"\\" * 200_001])
def test_a_line_made_to_be_slow_is_not(line):
    """Seconds would be hours in a file of such lines. The bound only catches a reader that hangs."""
    begun = time.perf_counter()
    with suppress(LineError):
        repair(line)
    assert time.perf_counter() - begun < HANGS_S


def test_many_keys_are_looked_through_once():
    """Where a key stands twice among a hundred thousand; the bound only catches a search that is quadratic."""
    begun = time.perf_counter()
    keys = [b'"%d":1' % n for n in (*range(100_000), 99_999)]
    with pytest.raises(LineError, match="99999"):
        repair(b"{" + b",".join(keys) + b"}")
    assert time.perf_counter() - begun < HANGS_S


def test_formats_are_told_apart_by_content():
    """The keys of the line decide, whatever its file is called."""
    found = detect(keys_of(GOOD))
    assert found is not None
    assert found.name == "vllm_chat"
    assert detect(keys_of(b'{"level":"info"}')) is None
