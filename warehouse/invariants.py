"""What must hold of rows whatever wrote them; checked on flat buffers before a row is written.

`traces`: the per-token lists have one length; spans are sorted, disjoint and within the sequence; `action_mask` is
true exactly on the spans that the sequence owns and whose call has no fault, and there every log-probability is
finite in (-9999, 0]; off the spans it is null, never 0.0; every sampled token is owned by exactly one sequence.
`source_files`: the four states of lines add up to the lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import InputError
from schemas.numbers import SENTINEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Lists:
    """One list column: where each row begins in the flat values [rows + 1], the length of each row, the values."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    values: pa.Array

    @property
    def row_of(self) -> NDArray[np.int64]:
        """The row of every flat value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def check_traces(rows: pa.Table) -> None:
    """Refuse (`InputError`) rows of `traces` that break an invariant; names trace, sequence, position and value."""
    tokens = _lists(rows, "token_ids")
    mask = _lists(rows, "action_mask")
    logprobs = _lists(rows, "token_logprobs")
    _check_lengths(rows, tokens)
    _check_token_values(rows, tokens, mask)
    spans = _lists(rows, "spans")
    _check_bounds(rows, "spans", spans, tokens)
    _check_bounds(rows, "version_spans", _lists(rows, "version_spans"), tokens)
    owned = spans.values.field("owned").to_numpy(zero_copy_only=False).astype(bool)
    faultless = pc.is_null(spans.values.field("fault")).to_numpy(zero_copy_only=False)
    sampled = _painted(tokens, spans, np.ones(len(owned), bool))
    _check_mask(rows, tokens, mask, _painted(tokens, spans, owned & faultless))
    _check_logprobs(rows, tokens, logprobs, mask, sampled)
    _check_totals(rows, tokens, mask, spans)
    _check_whole_traces(rows)
    _check_owners(rows, spans, owned)


def check_source_files(rows: pa.Table) -> None:
    """Refuse (`InputError`) a reading of a file whose lines do not add up to their four states."""
    states = ("num_landed", "num_duplicates", "num_rejects", "num_blank")
    total = sum(rows[name].to_numpy() for name in states)
    bad = np.flatnonzero(rows["num_lines"].to_numpy() != total)
    if bad.size:
        row = rows.slice(int(bad[0]), 1).to_pylist()[0]
        sums = " + ".join(str(row[name]) for name in states)
        raise InputError(
            f"source_files: {row['uri']}: {row['num_lines']} lines, but {sums} "
            f"({', '.join(states)}); expected the sum. A line ended in no state or in two: count each once"
        )


CHECKS: dict[str, Callable[[pa.Table], None]] = {"traces": check_traces, "source_files": check_source_files}
"""The check of each table that has one; it gets conformed rows."""


def _lists(rows: pa.Table, name: str) -> _Lists:
    column = rows[name].combine_chunks()
    starts = column.offsets.to_numpy().astype(np.int64)
    starts = starts - starts[0]
    return _Lists(starts, np.diff(starts), column.flatten())


def _flags(values: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)


def _refuse(rows: pa.Table, row: int, where: str, found: str, expected: str) -> None:
    trace, sequence = rows["trace_id"][row].as_py(), rows["sequence_index"][row].as_py()
    raise InputError(f"traces: trace {trace}, sequence {sequence}{where}: {found}; {expected}")


def _refuse_token(rows: pa.Table, tokens: _Lists, flat: int, found: str, expected: str) -> None:
    row = int(np.searchsorted(tokens.starts, flat, side="right")) - 1
    _refuse(rows, row, f", position {flat - int(tokens.starts[row])}", found, expected)


def _check_lengths(rows: pa.Table, tokens: _Lists) -> None:
    for name in ("token_logprobs", "action_mask", "top_token_ids", "top_token_logprobs"):
        lengths = pc.list_value_length(rows[name]).combine_chunks()
        differs = pc.fill_null(pc.not_equal(lengths, pa.array(tokens.lengths)), fill_value=False)
        bad = np.flatnonzero(_flags(differs))
        if bad.size:
            row = int(bad[0])
            found = f"{lengths[row].as_py()} {name} for {tokens.lengths[row]} token_ids"
            _refuse(rows, row, "", found, "expected one per token: write null or false where there is none")


def _check_token_values(rows: pa.Table, tokens: _Lists, mask: _Lists) -> None:
    for name, lists in (("token_ids", tokens), ("action_mask", mask)):
        if lists.values.null_count:
            flat = int(np.flatnonzero(_flags(pc.is_null(lists.values)))[0])
            _refuse_token(rows, tokens, flat, f"{name} is null", "expected a value at every position")
    negative = np.flatnonzero(tokens.values.to_numpy() < 0)
    if negative.size:
        flat = int(negative[0])
        found = f"token id {tokens.values[flat].as_py()}"
        _refuse_token(rows, tokens, flat, found, "expected ids from 0: the log is damaged, reject its call")


def _check_bounds(rows: pa.Table, name: str, spans: _Lists, tokens: _Lists) -> None:
    """Spans lie within their sequence, in order, and none begins before the one before it ends."""
    for field in ("start", "end") if name == "version_spans" else ("call_id", "start", "end", "owned"):
        if spans.values.field(field).null_count:
            row = int(spans.row_of[_flags(pc.is_null(spans.values.field(field)))][0])
            _refuse(rows, row, "", f"a null {field} in {name}", "expected a value in every span")
    row_of = spans.row_of
    starts, ends = (spans.values.field(field).to_numpy() for field in ("start", "end"))
    outside = (starts < 0) | (ends < starts) | (ends > tokens.lengths[row_of])
    overlaps = np.zeros(len(starts), bool)
    overlaps[1:] = (row_of[1:] == row_of[:-1]) & (starts[1:] < ends[:-1])
    bad = np.flatnonzero(outside | overlaps)
    if bad.size:
        span, row = int(bad[0]), int(row_of[bad[0]])
        found = f"{name} [{starts[span]}, {ends[span]}) of {tokens.lengths[row]} tokens"
        wrong = "leaves the sequence" if outside[span] else f"begins before {ends[span - 1]}, where the one before ends"
        _refuse(rows, row, "", f"{found} {wrong}", "expected spans in order, disjoint, within the sequence")


def _painted(tokens: _Lists, spans: _Lists, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For every flat token, whether it lies in one of the chosen spans, which are disjoint."""
    begins = tokens.starts[spans.row_of]
    starts, ends = (spans.values.field(field).to_numpy()[chosen] for field in ("start", "end"))
    steps = np.zeros(int(tokens.starts[-1]) + 1, np.int64)
    np.add.at(steps, begins[chosen] + starts, 1)
    np.add.at(steps, begins[chosen] + ends, -1)
    return np.cumsum(steps)[:-1] > 0


def _check_mask(rows: pa.Table, tokens: _Lists, mask: _Lists, expected: NDArray[np.bool_]) -> None:
    bad = np.flatnonzero(_flags(mask.values) != expected)
    if bad.size:
        flat = int(bad[0])
        where = "on a span that the sequence owns and whose call has no fault" if expected[flat] else "off such a span"
        _refuse_token(
            rows,
            tokens,
            flat,
            f"action_mask is {str(not expected[flat]).lower()} {where}",
            "expected true exactly on owned spans without fault: mend the mask or the spans",
        )


def _check_logprobs(rows: pa.Table, tokens: _Lists, logprobs: _Lists, mask: _Lists, sampled: NDArray[np.bool_]) -> None:
    valid = _flags(pc.is_valid(logprobs.values))
    numbers = logprobs.values.to_numpy(zero_copy_only=False)
    action = _flags(mask.values)
    with np.errstate(invalid="ignore"):
        usable = valid & np.isfinite(numbers) & (numbers > SENTINEL) & (numbers <= 0)
    wrong = (
        (valid & ~sampled, "off the sampled spans", "expected null there, never 0.0 or another invented number"),
        (
            action & ~usable,
            "where action_mask is true",
            f"expected a finite number in ({SENTINEL:.0f}, 0]: mark the call's fault",
        ),
        (valid & ~np.isfinite(numbers), "on a sampled span", "expected a finite number, or null with the call's fault"),
    )
    for bad, where, expected in wrong:
        first = np.flatnonzero(bad)
        if first.size:
            flat = int(first[0])
            value: Any = logprobs.values[flat].as_py()
            _refuse_token(rows, tokens, flat, f"token_logprobs is {value} {where}", expected)


def _check_totals(rows: pa.Table, tokens: _Lists, mask: _Lists, spans: _Lists) -> None:
    sums = np.concatenate([[0], np.cumsum(_flags(mask.values))])
    num_action = sums[tokens.starts[1:]] - sums[tokens.starts[:-1]]
    prompt = tokens.lengths.copy()
    has_span = spans.lengths > 0
    prompt[has_span] = spans.values.field("start").to_numpy()[spans.starts[:-1][has_span]]
    for name, expected, meaning in (
        ("num_action_tokens", num_action, "true entries of action_mask"),
        ("prompt_length", prompt, "tokens before the first span"),
    ):
        given = rows[name].to_numpy()
        bad = np.flatnonzero(given != expected)
        if bad.size:
            row = int(bad[0])
            _refuse(rows, row, "", f"{name} is {given[row]}", f"expected {expected[row]}, the {meaning}")


def _check_whole_traces(rows: pa.Table) -> None:
    """All sequences of a trace revision come together, numbered from 0."""
    keys = rows.select(["trace_id", "trace_revision", "sequence_index", "num_sequences"])
    groups = keys.group_by(["trace_id", "trace_revision"], use_threads=False).aggregate(
        [
            ("sequence_index", "count"),
            ("sequence_index", "count_distinct"),
            ("sequence_index", "min"),
            ("sequence_index", "max"),
            ("num_sequences", "min"),
            ("num_sequences", "max"),
        ]
    )
    found = {name: groups[name].to_numpy() for name in groups.column_names if name.startswith(("seq", "num"))}
    number = found["num_sequences_max"]
    whole = (
        (found["num_sequences_min"] == number)
        & (found["sequence_index_count"] == number)
        & (found["sequence_index_count_distinct"] == number)
        & (found["sequence_index_min"] == 0)
        & (found["sequence_index_max"] == number - 1)
    )
    bad = np.flatnonzero(~whole)
    if bad.size:
        group = groups.slice(int(bad[0]), 1).to_pylist()[0]
        raise InputError(
            f"traces: trace {group['trace_id']}, revision {group['trace_revision']}: "
            f"{group['sequence_index_count']} sequences from {group['sequence_index_min']} to "
            f"{group['sequence_index_max']} for num_sequences {group['num_sequences_max']}; expected all of them, "
            "numbered from 0, in one append"
        )


def _check_owners(rows: pa.Table, spans: _Lists, owned: NDArray[np.bool_]) -> None:
    """Every call of a trace revision is owned by one of its sequences, no more and no less."""
    row_of = pa.array(spans.row_of)
    calls = pa.table(
        {
            "trace_id": rows["trace_id"].take(row_of),
            "trace_revision": rows["trace_revision"].take(row_of),
            "call_id": spans.values.field("call_id"),
            "owner": pc.if_else(pa.array(owned), rows["sequence_index"].take(row_of).combine_chunks(), None),
        }
    )
    owners = calls.group_by(["trace_id", "trace_revision", "call_id"], use_threads=False).aggregate(
        [("owner", "count_distinct", pc.CountOptions(mode="only_valid")), ("owner", "min"), ("owner", "max")]
    )
    bad = np.flatnonzero(owners["owner_count_distinct"].to_numpy() != 1)
    if bad.size:
        call = owners.slice(int(bad[0]), 1).to_pylist()[0]
        found = (
            "by no sequence"
            if call["owner_min"] is None
            else f"by sequences {call['owner_min']} and {call['owner_max']}"
        )
        raise InputError(
            f"traces: trace {call['trace_id']}, revision {call['trace_revision']}: call {call['call_id']} is owned "
            f"{found}; expected exactly one, or its tokens would train twice or never. Mend `owned` of its spans"
        )
