"""Rows of `traces` as sequences in memory."""

import math

import numpy as np
import pyarrow as pa
import pytest

from schemas.errors import InputError
from schemas.tables import table
from tests.train.logged import forked_traces, logged, trace_rows
from train.sequences import SEQUENCE_COLUMNS, by_trace, sequences_from_table


def _table(traces):
    rows = [row for trace in traces for row in trace_rows(trace)]
    fields = [field for field in table("traces").schema if field.name in SEQUENCE_COLUMNS]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def test_a_row_comes_back_as_it_was():
    """Tokens, mask, log-probabilities and names survive the table."""
    (trace,) = [(logged([5, 6, 7, 8], [2, 3], behavior=[-0.5, -1.5], temperature=0.7),)]
    (found,) = sequences_from_table(_table([trace]))
    assert found.token_ids.tolist() == [5, 6, 7, 8]
    assert found.action_mask.tolist() == [False, False, True, True]
    assert found.action_logprobs.tolist() == [-0.5, -1.5]
    assert (found.trace_id, found.temperature, found.behavior_version) == ("t", 0.7, "v1")


def test_a_null_is_nan_and_never_zero():
    """What was not logged is no number."""
    (found,) = sequences_from_table(_table([(logged([5, 6, 7], [2]),)]))
    assert all(math.isnan(value) for value in found.behavior_logprobs[:2])


def test_sequences_come_by_trace_and_position():
    """Whatever the order of the rows, the sequences of a trace are neighbours in time order."""
    traces = forked_traces(num=3)
    rows = _table(traces).take(pa.array([5, 0, 3, 1, 4, 2]))
    grouped = by_trace(sequences_from_table(rows))
    assert [[(s.trace_id, s.sequence_index) for s in trace] for trace in grouped] == [
        [(f"trace-{number}", index) for index in (0, 1)] for number in range(3)
    ]


def test_a_table_that_was_cut_in_chunks_reads_alike():
    """List offsets of a slice do not begin at 0."""
    whole = _table(forked_traces(num=3))
    cut = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2), whole.slice(3)])
    for one, other in zip(sequences_from_table(whole), sequences_from_table(cut), strict=True):
        assert np.array_equal(one.token_ids, other.token_ids)
        assert np.array_equal(one.behavior_logprobs, other.behavior_logprobs, equal_nan=True)


def test_no_rows_are_no_sequences():
    """An empty table is no fault."""
    assert sequences_from_table(_table([])) == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: logged([5, 6], [0]), "first token is an action"),
        (lambda: logged([5, 6], [1], temperature=0.0), "temperature 0.0"),
        (lambda: logged([5, 6], [1], temperature=math.nan), "temperature nan"),
    ],
)
def test_what_cannot_be_scored_is_refused(made, said):
    """No context, or nothing sampled, has no log-probability."""
    with pytest.raises(InputError, match=said):
        made()
