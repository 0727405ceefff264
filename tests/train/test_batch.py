"""The packed batch: what it derives, how it splits, what it refuses."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BatchError, TrainingError
from tests.train.strategies import PROPERTY
from tests.train.strategies import rows as random_rows
from train.batch import Batch
from train.batch_statistics import BatchStatistics

TWO_TRACES = [
    {"trace_id": "a", "reward": 1.0, "behavior_logprobs": [-0.1, -0.2, None], "action_mask": [True, True, False]},
    {"trace_id": "b", "reward": 0.0, "behavior_logprobs": [-0.3]},
    {"trace_id": "a", "reward": 1.0, "behavior_logprobs": [-0.4, -0.5]},
]
"""Trace a has two sequences, which are no neighbours."""


def refused(rows, *words):
    """The message with which a batch of these rows is refused."""
    with pytest.raises(BatchError) as caught:
        Batch.from_rows(rows)
    for word in words:
        assert word in str(caught.value)


def row(**changes):
    """One good row with changes."""
    return {"reward": 1.0, "behavior_logprobs": [-0.1, -0.2], "trace_id": "8f3c"} | changes


def test_sequences_of_one_trace_are_one_trace():
    """Its length counts the action tokens of both, its reward counts once."""
    batch = Batch.from_rows(TWO_TRACES)
    assert batch.trace_ids == ("a", "b")
    assert batch.num_action_tokens.tolist() == [4, 1]
    assert batch.trace_index.tolist() == [0, 0, 0, 1, 0, 0]
    assert batch.sequence_index.tolist() == [0, 0, 1]
    assert batch.statistics == BatchStatistics(num_traces=2, num_action_tokens=5, mean_reward=0.5, equal_rewards=False)


def test_rows_without_a_trace_id_are_traces_of_their_own():
    """They are named by their position."""
    assert Batch.from_rows([row(trace_id=0), row(trace_id=1)]).trace_ids == ("0", "1")


def test_lists_arrays_and_tensors_are_alike():
    """A row may hold any of them."""
    made = [
        Batch.from_rows([row(behavior_logprobs=kind([-0.1, -0.2]), action_mask=mask)])
        for kind, mask in (
            (list, [True, False]),
            (lambda values: torch.tensor(values).numpy(), torch.tensor([True, False]).numpy()),
            (torch.tensor, torch.tensor([1, 0])),
        )
    ]
    for batch in made:
        assert batch.behavior_logprobs.tolist() == made[0].behavior_logprobs.tolist()
        assert batch.action_mask.tolist() == [True, False]


def test_equal_rewards_have_exactly_themselves_as_mean():
    """Ten times 0.1 adds up to less than 1 in float64; the mean is 0.1 all the same."""
    statistics = Batch.from_rows([row(reward=0.1, trace_id=index) for index in range(10)]).statistics
    assert statistics.mean_reward == 0.1
    assert statistics.equal_rewards


def test_half_precision_is_promoted():
    """Ratios need at least float32."""
    batch = Batch.from_rows([row()]).with_logprobs(torch.tensor([-0.1, -0.2], dtype=torch.bfloat16))
    assert batch.logprobs.dtype == torch.float32


def test_rounding_above_zero_is_snapped_and_counted():
    """Two log-probabilities of up to 1e-6, one in the log and one of ours."""
    batch = Batch.from_rows([row(behavior_logprobs=[1e-6, -0.2])]).with_logprobs(torch.tensor([-0.1, 5e-7]))
    assert batch.behavior_logprobs.tolist()[0] == 0.0
    assert batch.logprobs.tolist()[1] == 0.0
    assert batch.num_snapped == 2


def test_a_batch_holds_constants():
    """Nothing back-propagates through it."""
    batch = Batch.from_rows([row()]).with_logprobs(torch.tensor([-0.1, -0.2], requires_grad=True))
    assert not batch.logprobs.requires_grad


def test_a_part_packs_its_traces_in_the_order_asked_for():
    """Trace b, then both sequences of trace a, under the statistics of the whole."""
    whole = Batch.from_rows(TWO_TRACES)
    part = whole.select([1, 0])
    assert part.trace_ids == ("b", "a")
    assert whole.token_index([1, 0]).tolist() == [3, 0, 1, 2, 4, 5]
    assert part.trace_index.tolist() == [0, 1, 1, 1, 1, 1]
    assert part.num_action_tokens.tolist() == [1, 4]
    assert whole.select([1]).statistics == whole.statistics
    assert whole.select([1, 0]).is_whole
    assert not whole.select([1]).is_whole


@PROPERTY
@given(random_rows(min_traces=2), st.randoms(use_true_random=False))
def test_a_split_holds_every_token_once(rows, random):
    """The parts of any partition by traces hold the whole's numbers at `token_index`."""
    whole = Batch.from_rows(rows)
    traces = list(range(len(whole.trace_ids)))
    random.shuffle(traces)
    cut = random.randint(1, len(traces) - 1)
    seen = []
    for chosen in (traces[:cut], traces[cut:]):
        part, tokens = whole.select(chosen), whole.token_index(chosen)
        assert part.logprobs.tolist() == whole.logprobs[tokens].tolist()
        assert part.rewards.tolist() == [rows[trace]["reward"] for trace in chosen]
        seen += tokens.tolist()
    assert sorted(seen) == list(range(len(whole.action_mask)))


def test_a_part_names_traces_that_exist_and_once():
    """Anything else is a mistake of the caller."""
    whole = Batch.from_rows(TWO_TRACES)
    for traces in ([], [0, 0], [2], [-1]):
        with pytest.raises(BatchError, match="select"):
            whole.select(traces)


def test_our_own_bad_logprobs_are_a_failure_of_training():
    """They come from the policy, so the log is not to blame."""
    batch = Batch.from_rows([row()])
    with pytest.raises(TrainingError, match="trace 8f3c, token 1: logprobs nan"):
        batch.with_logprobs(torch.tensor([-0.1, float("nan")]))
    with pytest.raises(TrainingError, match="one number a token"):
        batch.with_logprobs(torch.tensor([-0.1]))


def test_an_empty_batch_is_refused():
    """There is nothing to average."""
    refused([], "no row")


def test_a_batch_without_an_action_token_is_refused():
    """A mask that is False everywhere is a broken log, not a batch."""
    refused([row(action_mask=[False, False])], "no action token")


def test_lengths_that_differ_are_refused_with_both():
    """The message carries trace, counts and the way out."""
    refused([row(action_mask=[True])], "trace 8f3c", "2 behavior_logprobs, 1 action_mask", "ingest the trace again")


@pytest.mark.parametrize("bad", [float("nan"), float("-inf"), float("inf"), 0.01, 1.0, -9999.0, -1e4, None])
def test_what_is_no_logprob_is_refused_on_an_action_token(bad):
    """Not finite, positive, a placeholder or missing."""
    refused([row(behavior_logprobs=[-0.1, bad])], "trace 8f3c, token 1: behavior_logprobs")


def test_a_very_unlikely_token_is_no_placeholder():
    """A log-probability of -900 can be measured; only placeholders are refused."""
    assert Batch.from_rows([row(behavior_logprobs=[-0.1, -900.0])]).behavior_logprobs[1] == -900.0


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), True, "1.0", None])
def test_a_reward_that_is_no_number_is_refused(reward):
    """Also a bool: it is somebody's flag until a rule makes it a reward."""
    refused([row(reward=reward)], "trace 8f3c: reward")


@pytest.mark.parametrize("values", ["text", [True, False], ["-0.1", "-0.2"], [[-0.1], [-0.2]], [-0.1, "x"]])
def test_wrong_types_of_logprobs_are_refused(values):
    """Texts, flags and nested lists are no numbers."""
    refused([row(behavior_logprobs=values)], "trace 8f3c: ")


@pytest.mark.parametrize("mask", [[0.5, 1.0], [2, 1], ["a", "b"]])
def test_a_mask_is_true_or_false(mask):
    """Numbers other than 0 and 1 are refused."""
    refused([row(action_mask=mask)], "trace 8f3c: action_mask")


def test_two_rewards_of_one_trace_are_refused():
    """A trace has one score; which one is not ours to choose."""
    refused([row(), row(reward=0.0)], "trace 8f3c: rewards 1.0 and 0.0")


def test_sequences_out_of_time_order_are_refused():
    """Credit would flow backward otherwise."""
    refused([row(sequence_index=1), row(sequence_index=0)], "trace 8f3c: sequence_index 0 after 1")


def test_a_field_in_some_rows_only_is_refused():
    """It is never filled in."""
    refused([row(trace_id="a"), row(trace_id="b", behavior_logprobs=None, action_mask=[True])], "trace b: no behavior")


def test_an_unknown_precision_is_refused():
    """Half precision cannot hold a ratio."""
    with pytest.raises(BatchError, match=r"expected torch\.float32 or torch\.float64"):
        Batch.from_rows([row()], dtype=torch.float16)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rewards": torch.tensor([1.0])}, "one number a trace; give one"),
        ({"trace_ids": ("a", "a")}, "expected each once; give its sequences one index"),
        ({"sequence_index": torch.tensor([0, 1])}, "expected one of each a sequence; let Batch.from_rows"),
        ({"action_mask": torch.ones(6)}, r"expected torch\.bool; convert it"),
        (
            {"sequence_lengths": torch.tensor([1, 1, 1])},
            "expected the 6 tokens of action_mask, .*; let Batch.from_rows",
        ),
        ({"sequence_traces": torch.tensor([0, 0, 0])}, "trace b: no sequence; expected at least one; leave"),
        ({"logprobs": torch.tensor([-0.1])}, "expected one number for each of the 6 tokens; pack it"),
        ({"values": torch.ones(6, dtype=torch.int64)}, "expected floating-point numbers; convert it"),
        ({"policy_lags": torch.tensor([1])}, "1 policy_lags; expected 6; give one for each token"),
        ({"keys": ("k",)}, "1 keys; expected 2; give one for each trace"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused_with_the_way_out(changes, said):
    """What is wrong, what was expected, what to do."""
    with pytest.raises(BatchError, match=said):
        replace(Batch.from_rows(TWO_TRACES), **changes)


def test_scores_replace_only_the_logprobs_of_a_batch():
    """A second score is checked and snapped as the first was, and what was found of the first is not kept."""
    batch = Batch.from_rows([{"reward": 1.0, "behavior_logprobs": [-1.0, -2.0], "action_mask": [True, False]}])
    first = batch.with_logprobs(torch.tensor([1e-7, torch.nan]))
    assert first.logprobs[0] == 0.0
    assert first.num_snapped == 1
    assert first.once("found", lambda: 1) == first.once("found", lambda: 2) == 1
    second = first.with_logprobs(torch.tensor([-3.0, torch.nan]))
    assert second.once("found", lambda: 2) == 2
    assert second.behavior_logprobs is batch.behavior_logprobs
    assert first.logprobs[0] == 0.0
    assert second.logprobs[0] == -3.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_new_score_forgets_the_entropies_and_the_roundings_of_the_old_one(dtype):
    """Both are those of other weights; what was rounded in the log stays counted, however often it is scored."""
    row = {"reward": 1.0, "behavior_logprobs": [1e-7, -1.0], "logprobs": [-1.0, 1e-7], "entropies": [0.5, 0.5]}
    batch = Batch.from_rows([row])
    assert (batch.num_snapped, batch.entropies is None) == (2, False)
    for scores, num_snapped in (([-1.0, -1.0], 1), ([1e-7, 1e-7], 3), ([1e-7, -1.0], 2)):
        batch = batch.with_logprobs(torch.tensor(scores, dtype=dtype))
        assert (batch.num_snapped, batch.entropies) == (num_snapped, None)


def test_values_are_read_again_when_they_are_new():
    """What was packed of the old ones is not kept, and what was packed of the log is."""
    batch = Batch.from_rows([{"reward": 1.0, "values": [0.25, 7.0], "action_mask": [True, False]}])
    assert batch.on_actions("values").tolist() == [0.25]
    assert batch.with_values(torch.tensor([0.75, torch.nan])).on_actions("values").tolist() == [0.75]
    assert batch.on_actions("behavior_logprobs") is None


def test_the_graph_of_scores_does_not_enter_a_batch():
    """The logprobs that a batch holds are constants."""
    batch = Batch.from_rows([{"reward": 1.0, "behavior_logprobs": [-1.0], "action_mask": [True]}])
    assert not batch.with_logprobs(torch.tensor([-1.0], requires_grad=True)).logprobs.requires_grad


@pytest.mark.parametrize("bad", [float("nan"), float("-inf"), 0.5])
def test_scores_that_are_no_logprobs_are_refused_by_place(bad):
    """Each names the trace and token, and is the trainer's fault."""
    batch = Batch.from_rows([{"reward": 1.0, "behavior_logprobs": [-1.0, -1.0], "action_mask": [False, True]}])
    with pytest.raises(TrainingError, match="trace 0, token 1: logprobs"):
        batch.with_logprobs(torch.tensor([-1.0, bad]))
