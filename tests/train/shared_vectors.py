"""Reads the shared vectors and compares tensors with them."""

import functools
import json
import math
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "vectors"

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
"""Relative to max(1, |expected|): the expectations carry 15 digits, float32 logprobs 7."""

DTYPES = tuple(TOLERANCE)


def _numbers(value):
    """The same JSON with the strings "nan", "inf" and "-inf" as the floats they stand for."""
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


@functools.cache
def read(name):
    """One file of vectors."""
    return _numbers(json.loads((FOLDER / f"{name}.json").read_text()))


@functools.cache
def batches():
    """Rows by batch id."""
    return {batch["id"]: batch["rows"] for batch in read("batches")["batches"]}


def cases(name, setting, dtype):
    """Cases of one setting as (id, rows, expectation), the fragile ones left out below float64."""
    for case in read(name)["cases"]:
        if case["setting"] == setting and not (case.get("fragile") and dtype != torch.float64):
            yield case["batch"], batches()[case["batch"]], case["expect"]


def edge_cases(method):
    """The edge cases of one method, by name."""
    return {case["name"]: case for case in read("edge_cases")["cases"] if case["method"] == method}


def flat(nested):
    """A list of lists as one list."""
    return [entry for row in nested for entry in row]


def differences(actual, expected, dtype):
    """Positions at which two flat lists differ by more than the tolerance, with both values."""
    assert len(actual) == len(expected)
    return [
        (position, got, wanted)
        for position, (got, wanted) in enumerate(zip(actual, expected, strict=True))
        if not (math.isnan(got) and math.isnan(wanted))
        and not abs(got - wanted) <= TOLERANCE[dtype] * max(1.0, abs(wanted))
    ]


def assert_close(actual, expected, dtype, what):
    """Fail with the first few differences and what was compared."""
    found = differences(actual, expected, dtype)
    assert not found, f"{what}: {found[:3]}"
