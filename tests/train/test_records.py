"""Recorded tokens: their shapes, how they follow a batch, and what is refused of them."""

import math

import numpy as np
import pytest
import torch

from schemas.errors import BatchError, TrainingError
from train.batch import Batch
from train.methods import KLPO, Reinforce
from train.records import Records

HALF, QUARTER = math.log(0.5), math.log(0.25)


def row(kind, behavior, logprobs=None, logged=HALF, **more):
    """A trace of one token, logged with a half, and its records; scored as they were recorded unless stated."""
    records = {"kind": kind, "behavior_logprobs": [behavior], "logprobs": [logprobs or behavior], **more}
    return {"reward": 1.0, "logprobs": [logged], "behavior_logprobs": [logged], "records": records}


def batch(*rows):
    """The batch of rows in float64."""
    return Batch.from_rows(rows, dtype=torch.float64)


def refused(made, said, centering="topk"):
    """KLPO refuses the row with these words."""
    with pytest.raises(BatchError, match=said):
        KLPO(centering=centering).update(batch(made))


def test_records_follow_the_traces_that_are_selected():
    """Each token keeps its own row, in the order of the part."""
    rows = [row("top_k", [HALF, QUARTER], token_ids=[[1, 2]]), row("top_k", [QUARTER, HALF], token_ids=[[3, 4]])]
    part = batch(*rows).select([1, 0]).records
    assert part.token_ids.tolist() == [[3, 4], [1, 2]]
    assert part.behavior_logprobs.tolist() == [[QUARTER, HALF], [HALF, QUARTER]]


def test_a_tool_token_needs_no_record():
    """None in its place, in a list or as a whole row."""
    told = {"kind": "draws", "behavior_logprobs": [None, [HALF, QUARTER]], "token_ids": [None, [7, 9]]}
    made = batch(
        {"reward": 1.0, "behavior_logprobs": [None, HALF], "action_mask": [False, True], "records": told},
    )
    assert made.records.behavior_logprobs[1].tolist() == [HALF, QUARTER]
    assert made.records.token_ids[1].tolist() == [7, 9]
    assert made.records.logprobs is None


@pytest.mark.parametrize("form", [np.array, torch.tensor, list])
def test_records_come_as_lists_arrays_or_tensors(form):
    """The same numbers."""
    made = row("top_k", [HALF, QUARTER])
    made["records"]["behavior_logprobs"] = form([[HALF, QUARTER]])
    assert batch(made).records.behavior_logprobs.tolist() == [pytest.approx([HALF, QUARTER], rel=1e-7)]


def test_a_new_score_of_the_batch_forgets_the_old_one_of_its_records():
    """Numbers of other weights are never mixed: both come from one pass, or the records have none."""
    made = batch(row("top_k", [HALF, QUARTER]))
    assert made.with_logprobs(torch.tensor([-0.1])).records.logprobs is None
    scored = made.with_logprobs(torch.tensor([-0.1]), torch.tensor([[-0.1, -3.0]], requires_grad=True))
    assert scored.records.logprobs.tolist() == [pytest.approx([-0.1, -3.0])]
    assert not scored.records.logprobs.requires_grad
    with pytest.raises(BatchError, match="the records have no logprobs; expected one for each recorded token"):
        KLPO(centering="topk").update(made.with_logprobs(torch.tensor([-0.1])))


@pytest.mark.parametrize("recorded", [[[-0.1]], [[-0.1, math.nan]], [[-0.1, 0.5]]], ids=str)
def test_a_bad_score_of_the_records_is_our_own_fault(recorded):
    """Of another shape, or no log-probability."""
    with pytest.raises(TrainingError, match="expected"):
        batch(row("top_k", [HALF, QUARTER])).with_logprobs(torch.tensor([-0.1]), torch.tensor(recorded))


def test_rounding_above_zero_is_read_as_zero_and_counted():
    """In records as elsewhere."""
    made = batch(row("top_k", [HALF, 5e-7], [5e-7, QUARTER]))
    assert made.num_snapped == 2
    assert made.records.behavior_logprobs.tolist() == [[HALF, 0.0]]
    assert made.records.logprobs.tolist() == [[0.0, QUARTER]]


def test_half_precision_is_promoted():
    """Records keep at least float32."""
    records = Records(kind="draws", behavior_logprobs=torch.zeros(1, 2, dtype=torch.bfloat16))
    assert records.behavior_logprobs.dtype == torch.float32
    assert records.num_records == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "head"}, "kind 'head'; expected one of draws, top_k"),
        ({"behavior_logprobs": torch.zeros(3)}, r"shape \(3,\)"),
        ({"kind": "expected"}, r"expected \[N, 1\]"),
        ({"logprobs": torch.zeros(1, 3)}, r"logprobs of shape \(1, 3\); expected \(1, 2\)"),
        ({"token_ids": torch.zeros(2, 2)}, "token_ids of shape"),
        ({"sampled_ids": torch.zeros(1, 2)}, "sampled_ids of shape"),
        ({"behavior_logprobs": torch.zeros(1, 2, dtype=torch.int64)}, "of torch.int64; expected floating-point"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_records_of_another_shape_are_refused(options, said):
    """With the shape, and the one that was expected."""
    with pytest.raises(BatchError, match=said):
        Records(**({"kind": "draws", "behavior_logprobs": torch.zeros(1, 2)} | options))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("draws", [HALF]), row("top_k", [HALF])], "kinds 'draws', 'top_k'; expected one kind in all rows"),
        ([row("draws", [HALF]), row("draws", [HALF]) | {"records": None}], "trace 1: no records, while 1 of 2 rows"),
        ([row("draws", [HALF]), row("draws", [HALF, HALF])], "trace 1: .* has 2 entries a token, trace 0 1"),
        ([row("draws", [HALF]) | {"records": [[HALF]]}], "trace 0: records are .*; expected a mapping"),
        ([row("draws", [HALF]) | {"records": {"kind": "draws", "token_ids": [[3]]}}], "behavior_logprobs is None"),
        ([row("draws", [HALF], token_ids=[[1], [2]])], "token_ids is .* for each of 1 tokens"),
        ([row("draws", [HALF], token_ids=[["the"]])], "token_ids is .*; expected one list of K numbers"),
        ([row("draws", [math.nan])], "trace 0, token 0: behavior_logprobs nan of recorded token 0"),
        ([row("draws", [HALF, -math.inf], [HALF, HALF])], "-inf of recorded token 1"),
        ([row("draws", [HALF, -9999.0], [HALF, HALF])], "-9999.0 of recorded token 1; .* above -9999"),
        ([row("top_k", [HALF, 0.1])], r"behavior_logprobs 0\.1\d* of recorded token 1"),
        ([row("top_k", [HALF, -math.inf])], "logprobs -inf of recorded token 1"),
    ],
    ids=range(12),
)
def test_rows_whose_records_cannot_be_read_are_refused(rows, said):
    """With the trace and the place."""
    with pytest.raises(BatchError, match=said):
        batch(*rows)


def test_heads_of_several_sizes_are_refused():
    """A server that appends the sampled token gives one more where it was not in the head."""
    made = row("top_k", [HALF])
    made |= {"logprobs": [HALF, HALF], "behavior_logprobs": [HALF, HALF]}
    made["records"] = {"kind": "top_k", "behavior_logprobs": [[HALF], [HALF, QUARTER]]}
    with pytest.raises(BatchError, match=r"trace 0: .* has 1 to 2 entries a token"):
        batch(made)


def test_records_of_other_tokens_than_the_batch_are_refused():
    """One row a token."""
    made = batch(row("draws", [HALF]))
    records = Records(kind="draws", behavior_logprobs=torch.zeros(2, 1))
    with pytest.raises(BatchError, match="records of 2 tokens; expected 1"):
        Batch(**{name: getattr(made, name) for name in FIELDS}, records=records)


FIELDS = ("trace_ids", "rewards", "sequence_lengths", "sequence_traces", "sequence_index", "action_mask")


def test_a_shift_by_one_token_is_seen():
    """The sampled token stands in its head under another number than was logged: the head is of another token."""
    own = {"token_ids": [[4, 5]], "sampled_ids": [4]}
    refused(row("top_k", [QUARTER, HALF], **own), "trace 0, token 0: the sampled token 4 was logged with -0.693147")
    KLPO(centering="topk").update(batch(row("top_k", [HALF, QUARTER], **own)))
    KLPO(centering="topk").update(batch(row("top_k", [HALF, QUARTER], token_ids=[[4, 5]], sampled_ids=[9])))


def test_a_rounded_head_still_agrees():
    """Four decimals are no shift."""
    KLPO(centering="topk").update(batch(row("top_k", [-0.6931, -2.0], token_ids=[[4, 5]], sampled_ids=[4])))


def test_a_whole_vocabulary_needs_no_ids_to_be_checked():
    """The sampled id is its column; one outside of it is refused."""
    full = [QUARTER, HALF, QUARTER]
    KLPO(centering="exact").update(batch(row("full", full, sampled_ids=[1])))
    refused(row("full", full, sampled_ids=[0]), "the sampled token 0 was logged with", "exact")
    refused(row("full", full, sampled_ids=[3]), "or lies outside of the record", "exact")


def test_draws_of_a_renormalised_head_are_refused_where_they_hold_the_sampled_token():
    """Its renormalised probability is not the logged one."""
    renormalised = math.log(0.5 / 0.75)
    made = row("draws", [renormalised, math.log(0.25 / 0.75)], token_ids=[[4, 5]], sampled_ids=[4])
    refused(made, "the records are shifted, renormalised or of another version", "monte_carlo")


def test_draws_of_one_token_have_one_probability():
    """Duplicates stay, with the same number."""
    refused(row("draws", [HALF, QUARTER], token_ids=[[4, 4]]), "two draws of one token with two", "monte_carlo")
    KLPO().update(batch(row("draws", [HALF, HALF, HALF], token_ids=[[4, 4, 4]])))


def test_distinct_draws_do_not_exceed_certainty():
    """0.5, 0.5 and 0.25 are no probabilities of three tokens."""
    made = row("draws", [HALF, HALF, QUARTER], token_ids=[[4, 5, 6]])
    refused(made, r"its distinct draws add up to 1\.25; expected at most 1", "monte_carlo")


def test_a_duplicate_in_a_head_is_refused():
    """Draws have duplicates, heads do not."""
    refused(row("top_k", [HALF, QUARTER], token_ids=[[4, 4]]), "trace 0, token 0: a token id occurs twice among its 2")


@pytest.mark.parametrize(("excess", "passes"), [(9e-7, True), (1.1e-6, False)])
def test_a_head_does_not_exceed_certainty(excess, passes):
    """By more than 1e-6 in float64, under either policy."""
    over = [HALF, math.log(0.5 + excess)]
    for made in (row("top_k", over, [HALF, QUARTER]), row("top_k", [HALF, QUARTER], over)):
        if passes:
            KLPO(centering="topk").update(batch(made))
        else:
            refused(made, "of its recorded tokens add up to 1.0000011; expected at most 1")


def test_a_whole_vocabulary_is_certain():
    """0.5 and 0.25 leave something out."""
    refused(row("full", [HALF, QUARTER]), r"add up to 0\.75; expected 1, as of a whole vocabulary", "exact")


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (KLPO(), "top_k"),
        (KLPO(centering="exact"), "top_k"),
        (KLPO(centering="topk"), "draws"),
        (Reinforce(correction="score_centering"), "draws"),
    ],
    ids=str,
)
def test_one_kind_is_never_taken_for_another(method, kind):
    """Draws are not a head, and a head is no vocabulary."""
    with pytest.raises(BatchError, match=f"records of kind '{kind}'; expected"):
        method.update(batch(row(kind, [HALF, QUARTER])))
