"""A batch comes out as the rows that it could be read from."""

import json

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import PROPERTY, cut
from tests.train.strategies import rows as random_rows
from train.batch import Batch


def same(one, other, mask=None):
    """Whether two tensors agree, on the mask if there is one; None agrees with None."""
    if one is None or other is None:
        return one is other
    return torch.equal(one if mask is None else one[mask], other if mask is None else other[mask])


@PROPERTY
@given(random_rows(min_traces=2), st.data(), st.sampled_from([torch.float32, torch.float64]))
def test_a_batch_read_from_its_own_rows_is_the_same(made, data, dtype):
    """Through JSON as well, bit for bit, traces of several sequences too."""
    batch = Batch.from_rows(data.draw(cut(made)), dtype=dtype)
    again = Batch.from_rows(json.loads(json.dumps(batch.to_rows())), dtype=dtype)
    mask = batch.action_mask
    assert (again.trace_ids, again.keys) == (batch.trace_ids, batch.keys)
    for name in ("rewards", "sequence_lengths", "sequence_traces", "sequence_index", "action_mask", "policy_lags"):
        assert same(getattr(again, name), getattr(batch, name)), name
    for name in ("logprobs", "behavior_logprobs", "prox_logprobs", "values", "groups"):
        assert same(getattr(again, name), getattr(batch, name), None if name == "groups" else mask), name
    records = batch.records
    assert (again.records is None) == (records is None)
    if records is not None:
        for name in ("behavior_logprobs", "logprobs", "token_ids"):
            assert same(getattr(again.records, name), getattr(records, name), mask), name


def test_what_lies_off_the_mask_comes_out_as_none():
    """Nobody could read it, and NaN is no JSON."""
    row = {"reward": 1.0, "behavior_logprobs": [-1.0, float("nan")], "action_mask": [True, False], "failure": True}
    (found,) = Batch.from_rows([row]).to_rows()
    expected = {"trace_id": "0", "sequence_index": 0, "reward": 1.0, "failure": True}
    assert found == expected | {"action_mask": [True, False], "behavior_logprobs": [-1.0, None]}


def test_recorded_tokens_come_out_beside_their_kind():
    """Two draws for the one action token, none for the tool's."""
    records = {
        "kind": "draws",
        "behavior_logprobs": [[-1.0, -2.0], None],
        "token_ids": [[3, 4], None],
        "sampled_ids": [7, None],
    }
    row = {"reward": 0.0, "behavior_logprobs": [-1.0, None], "action_mask": [True, False], "records": records}
    (found,) = Batch.from_rows([row]).to_rows()
    assert found["records"] == records
