"""The neutral form: lines that `Batch.from_rows` reads, bit for bit what was logged."""

import json

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.handoff.handed import FORKED, SHORT, TWO_TURNS, admitted, three
from tests.train.logged import logged
from train.batch import Batch
from train.handoff.jsonl import rows_of, write_batch

LOGPROBS = st.lists(st.floats(-90, 0, width=32), min_size=1, max_size=8)


def read(path):
    """The lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_the_lines_are_the_batch_that_was_logged(tmp_path):
    """Three traces in four sequences, one of them with a tool between its turns."""
    batch = Batch.from_rows(read(write_batch(tmp_path, 0, three(ask="refund", workload="desk", lag=2))))
    assert batch.trace_ids == ("two-turns", "forked", "short")
    assert batch.sequence_lengths.tolist() == [6, 4, 4, 2]
    assert batch.num_action_tokens.tolist() == [3, 4, 1]
    assert batch.rewards.tolist() == [1, 0, 0]
    assert batch.behavior_logprobs[batch.action_mask].tolist() == [-0.5, -0.25, -1.5, -0.75, -2, -0.75, -2, -0.125]
    assert (batch.groups.tolist(), batch.keys, batch.policy_lags.tolist()) == ([0, 0, 0], ("desk",) * 3, [2] * 16)


@given(LOGPROBS)
def test_any_float32_comes_back_bit_for_bit(values):
    """Through JSON and `Batch.from_rows`."""
    logprobs = np.array(values, dtype=np.float32)
    sequence = logged([1, *range(len(values))], range(1, len(values) + 1), behavior=logprobs)
    lines = [json.loads(json.dumps(row)) for row in rows_of([admitted(sequence, reward=1.0)])]
    batch = Batch.from_rows(lines)
    assert batch.behavior_logprobs.dtype == torch.float32
    assert batch.behavior_logprobs[batch.action_mask].numpy().tobytes() == logprobs.tobytes()


def test_what_one_trace_of_a_batch_lacks_is_in_no_row():
    """A field of a batch stands in every row or in none; what a trace has stays beside it."""
    rows = rows_of([admitted(TWO_TURNS, reward=1.0, ask="refund", lag=None), admitted(SHORT, reward=0.0)])
    assert not any(name in row for row in rows for name in ("group", "key", "policy_lag"))
    assert [row["ask_id"] for row in rows] == ["refund", None]


def test_tokens_are_those_that_the_engine_saw():
    """No text is turned into tokens on the way."""
    rows = rows_of([admitted(*FORKED, reward=0.0)])
    assert [row["token_ids"] for row in rows] == [[5, 6, 11, 12], [5, 6, 12, 12]]
    assert [row["sequence_index"] for row in rows] == [0, 1]


def test_an_id_is_data(tmp_path):
    """Neither a path nor the end of a line."""
    sequence = logged([5, 6], [1], trace="../../x\n\u2028", behavior=-1.0)
    path = write_batch(tmp_path, 0, [admitted(sequence, reward=1.0, ask="a\n{}")])
    assert [row["trace_id"] for row in read(path)] == ["../../x\n\u2028"]
    assert [file.name for file in tmp_path.iterdir()] == ["batch-00000.jsonl"]
