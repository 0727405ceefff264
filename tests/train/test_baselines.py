"""Reinforce, GRPO and RAE with corrections: by hand, their refusals, their words, and toys that must climb."""

import math

import pytest
import torch

from schemas.errors import BatchError, SettingsError, TrainingError
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import GRPO, RAE, FlashReinforce, Reinforce, after, by_name, gates, proximal
from train.methods.correction_catalog import CORRECTIONS, correction_by_name
from train.methods.corrections import TIS, IcePop


def row(reward=1.0, now=-0.5, then=-0.5, **more):
    """A trace of one token."""
    return {"reward": reward, "logprobs": [now], "behavior_logprobs": [then]} | more


def update(method, *rows):
    """The update of rows in float64."""
    return method.update(Batch.from_rows(rows, dtype=torch.float64))


TWICE = row(1.0, math.log(0.8), math.log(0.4)), row(0.0, math.log(0.2), math.log(0.4))
"""A good trace that has become twice as likely, a bad one half as likely: A = +-0.5, N = 2."""


@pytest.mark.parametrize(
    ("correction", "weights"),
    [
        ("none", (1.0, 1.0)),
        ("is", (2.0, 0.5)),
        ({"name": "tis", "high": 1.5}, (1.5, 0.5)),
        ({"name": "icepop", "low": 0.5, "high": 1.9}, (0.0, 0.5)),
        ("ppo", (0.0, 0.0)),
        ({"name": "ppo", "low": 0.6, "high": 1.1}, (2.0, 0.5)),
        ("cispo", (1.28, 0.8)),
        ("dppo_tv", (0.0, 0.0)),
        ({"name": "dppo_tv", "high": 0.5, "truncate": 1.5}, (1.5, 0.0)),
        ({"name": "ipo", "bound": 0.3}, (0.0, 0.5)),
        ({"name": "seq_mis", "high": 1.9}, (0.0, 0.5)),
        ({"name": "opsm", "bound": 0.1}, (2.0, 0.0)),
    ],
    ids=str,
)
def test_a_correction_by_hand(correction, weights):
    """Ratios 2 and 1/2 of probabilities 0.4."""
    got = update(Reinforce(correction=correction), *TWICE).coefficients.tolist()
    assert got == pytest.approx([0.25 * weights[0], -0.25 * weights[1]])


def test_dual_clip_bounds_a_bad_trace_that_became_likely():
    """PPO's minimum leaves it unbounded."""
    worse = row(0.0, math.log(0.8), math.log(0.2)), row(1.0)
    assert update(Reinforce(correction="ppo"), *worse).coefficients[0] == pytest.approx(-0.25 * 4)
    dual = {"name": "ppo", "dual": 3.0}
    assert update(Reinforce(correction=dual), *worse).coefficients[0] == 0.0


def test_dppo_by_kl_closes_what_moved_far_its_advantages_way():
    """KL of coins 0.4 and 0.8 is 0.38 nats, of 0.4 and 0.2 it is 0.10."""
    kl = {"name": "dppo_kl", "low": 0.11, "high": 0.3}
    assert update(Reinforce(correction=kl), *TWICE).coefficients.tolist() == pytest.approx([0.0, -0.125])


def test_a_trust_region_looks_at_the_worst_token_and_at_the_mean():
    """k3 of ratio 2 is 1 - ln 2 = 0.307, of ratio 1/2 it is ln 2 - 1/2 = 0.193."""
    wide = {"name": "trust_region", "max_divergence": 0.31, "mean_divergence": 0.31}
    assert update(Reinforce(correction=wide), *TWICE).in_trust.tolist() == [True, True]
    for narrow in ({"max_divergence": 0.2}, {"mean_divergence": 0.2}):
        assert update(Reinforce(correction=wide | narrow), *TWICE).in_trust.tolist() == [False, True]


def test_m2po_clips_as_tightly_as_its_budget_asks_and_no_tighter_than_its_least():
    """Two tokens moved by 2^(+-1): mean square 0.48 is over 0.04, no value is within it, so 1 - 0.3 and 1 + 0.5 hold."""
    assert update(Reinforce(correction="m2po"), *TWICE).coefficients.tolist() == [0.0, 0.0]
    rich = {"name": "m2po", "budget": 0.5}
    assert update(Reinforce(correction=rich), *TWICE).coefficients.tolist() == pytest.approx([0.5, -0.125])


def test_m2po_widens_its_clip_to_the_largest_value_within_the_budget():
    """Squares 0.01, 0.25, 1.44 of good tokens, mean budget 0.2: 0.01 + 2 (0.25) is 0.51, below 0.6, so tau is 0.5."""
    squares = torch.tensor([1.44, 0.01, 0.25])
    assert proximal.budgeted_bound(squares, 0.2) == pytest.approx(0.25)
    assert proximal.exact_bound(squares, 0.2) == pytest.approx(0.6 - 0.01 - 0.25)
    rows = [row(1.0, -3.0 + move, -3.0) for move in (0.1, 0.5 - 1e-9, 1.2)] + [row(0.0)]
    for form in ("clip", "exact"):
        made = update(Reinforce(correction={"name": "m2po", "budget": 0.2, "form": form}), *rows)
        assert (made.coefficients != 0).tolist() == [True, True, False, True]


def test_m2po_as_a_mask_drops_the_largest_until_the_rest_is_within_the_budget():
    """Whatever their advantage; one token always stays."""
    assert proximal.kept_within_budget(torch.tensor([0.3, 0.01, 0.02]), 0.04).tolist() == [False, True, True]
    assert proximal.kept_within_budget(torch.tensor([0.3, 0.2]), 0.04).tolist() == [False, True]
    rows = [row(1.0, -0.9, -1.0), row(0.0, -2.0, -1.0)]
    made = update(Reinforce(correction={"name": "m2po", "form": "mask"}), *rows)
    assert (made.coefficients != 0).tolist() == [True, False]


def test_decoupled_ppo_clips_around_the_policy_in_the_middle():
    """Written at 0.2, pi_prox 0.4, pi 0.44: w 2, rho' 1.1, open; with pi 0.6 rho' is 1.5, closed; a cap of 1.5 cuts w."""
    rows = [row(1.0, math.log(pi), math.log(0.2), prox_logprobs=[math.log(0.4)]) for pi in (0.44, 0.6)]
    cap = {"name": "decoupled_ppo", "cap": 1.5, "beyond_cap": "clamp"}
    assert update(Reinforce(baseline=0.0, correction="decoupled_ppo"), *rows).coefficients.tolist() == pytest.approx(
        [1.1, 0]
    )
    assert update(Reinforce(baseline=0.0, correction=cap), *rows).coefficients[0] == pytest.approx(0.5 * 1.5 * 1.1)


def test_a3po_clips_fresh_traces_and_leaves_old_ones_alone():
    """Ratio 2 at lag 1 is closed; at lag 9 rho' is 2^(1/9) = 1.08, open, with the whole ratio as weight."""
    rows = [row(1.0, math.log(0.4), math.log(0.2), policy_lag=lag) for lag in (1, 9)]
    assert update(Reinforce(baseline=0.0, correction="a3po"), *rows).coefficients.tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize(("name", "missing"), [("decoupled_ppo", "no prox_logprobs"), ("a3po", "no policy_lag")])
def test_a_rule_around_a_policy_in_the_middle_refuses_a_batch_without_it(name, missing):
    """And says what to add."""
    with pytest.raises(BatchError, match=missing):
        update(Reinforce(correction=name), *TWICE)


def test_m2po_refuses_a_part_of_a_batch():
    """Its budget is that of all tokens."""
    part = Batch.from_rows(TWICE).select([0])
    method = Reinforce(correction="m2po")
    assert not method.splits
    with pytest.raises(BatchError, match="reinforce with m2po: a part of 1 of 2 traces"):
        method.update(part)


def test_a_lag_is_whole_updates_for_a_trace_or_for_each_token():
    """Anything else is refused."""
    assert Batch.from_rows([row(policy_lag=[3])]).policy_lags.tolist() == [3]
    for bad in ([3, 4], 0.5, [0.5]):
        with pytest.raises(BatchError, match="trace 0: policy_lag"):
            Batch.from_rows([row(policy_lag=bad)])


def test_the_effective_sample_size_of_equal_weights_is_their_number():
    """And of one weight among many it is 1; scale does not matter."""
    assert gates.effective_sample_size(torch.full((7,), 3.0)) == pytest.approx(7.0)
    assert gates.effective_sample_size(torch.tensor([1e3, 0.0, 0.0])) == pytest.approx(1.0)


def test_a_constant_baseline_is_subtracted_as_it_is():
    """Even from a batch of one."""
    assert update(Reinforce(baseline=0.25), row(1.0)).coefficients.tolist() == [0.75]


def test_reinforce_without_correction_needs_no_behavior_logprobs():
    """And says that it is plain policy gradient; with one it refuses."""
    bare = [{"reward": reward, "logprobs": [-0.5]} for reward in (1.0, 0.0)]
    made = update(Reinforce(), *bare)
    assert made.drift is None
    assert math.isnan(made.per_sequence()[0].drift)
    assert "correction none changed nothing: this is plain policy gradient" in str(made)
    with pytest.raises(BatchError, match=r"tis: trace 0 .*no behavior_logprobs"):
        update(Reinforce(correction="tis"), *bare)


def test_a_correction_says_what_it_masked():
    """In tokens of tokens."""
    assert "correction ppo masked 2 of 2 tokens" in str(update(Reinforce(correction="ppo"), *TWICE))


def test_an_unbounded_ratio_that_overflows_stops_the_update():
    """PPO bounds nothing on the side that moves back."""
    far = row(0.0, -0.1, -800.0), row(1.0)
    with pytest.raises(TrainingError, match=r"trace 0, token 0: the coefficient overflows.*log-ratio is 799\.9"):
        update(Reinforce(correction="ppo"), *far)


def test_a_group_by_hand():
    """Rewards 1, 0 and 0.5 of one ask: deviation 1/2, advantages +-1 and 0."""
    rows = [row(reward, group="x") for reward in (1.0, 0.0, 0.5)]
    made = update(GRPO(epsilon=0.0, aggregation="trace_sum"), *rows)
    assert made.advantages.tolist() == pytest.approx([1.0, -1.0, 0.0])
    assert made.coefficients.tolist() == pytest.approx([1 / 3, -1 / 3, 0.0])


def test_groups_are_those_of_the_whole_batch():
    """A part that holds one trace of an ask still compares it with the others."""
    rows = [row(reward, group=group) for reward, group in ((1.0, "x"), (0.0, "y"), (0.0, "x"), (1.0, "y"))]
    whole = Batch.from_rows(rows)
    assert GRPO().update(whole.select([3])).coefficients.tolist() == GRPO().update(whole).coefficients[3:].tolist()


def test_a_group_of_one_is_refused_unless_a_reading_is_chosen():
    """Zero as in TRL, raw as in verl."""
    alone = row(1.0, group="x")
    with pytest.raises(BatchError, match=r"1 trace \(0\) alone in its group"):
        update(GRPO(), alone)
    assert update(GRPO(singleton="zero"), alone).coefficients.tolist() == [0.0]
    assert update(GRPO(singleton="raw", scaled=False), alone).coefficients.tolist() == [1.0]
    assert "1 trace (0) alone in its group" in str(update(GRPO(singleton="zero"), alone))


def test_a_batch_without_groups_is_refused():
    """Grpo compares traces of one ask."""
    with pytest.raises(BatchError, match="no group"):
        update(GRPO(), *TWICE)


def test_groups_of_equal_rewards_move_nothing_and_say_so():
    """Exactly nothing, at any reward."""
    made = update(GRPO(epsilon=0.0001), *(row(0.1, group="x") for _ in range(3)))
    assert not made.moves
    assert "every group has one reward throughout, so nothing moves" in str(made)


def test_running_means_go_on_where_they_stopped():
    """Two batches one after the other, and both in one: the same advantages, the same means."""
    rows = [row(reward, key=key) for reward, key in ((1.0, "a"), (0.0, "b"), (1.0, "a"), (0.5, "b"))]
    method = RAE(decay=0.5)
    first = update(method, *rows[:2])
    following = after(method, first)
    second = update(following, *rows[2:])
    whole = update(method, *rows)
    assert [*first.advantages.tolist(), *second.advantages.tolist()] == whole.advantages.tolist() == [1, 0, 0.5, 0.5]
    assert dict(second.state) == dict(whole.state) == {"a": 0.75, "b": 0.25}
    assert "baseline of a, b started at 0" in str(first)
    assert method.state == {}


def test_a_method_without_a_memory_stays_as_it_is():
    """So that a loop may go on blindly."""
    method = FlashReinforce()
    assert after(method, update(method, *TWICE)) is method


def test_running_means_refuse_a_part_of_a_batch():
    """Their order is that of the whole."""
    whole = Batch.from_rows(TWICE)
    with pytest.raises(BatchError, match="rae: a part of 1 of 2 traces"):
        RAE().update(whole.select([0]))


def test_a_correction_is_an_object_a_name_or_a_table():
    """All three say the same."""
    for rule in (TIS(high=3.0), {"name": "tis", "high": 3.0}):
        assert correction_by_name(rule) == TIS(high=3.0)
    assert by_name("reinforce", {"correction": "icepop"}) == Reinforce(correction="icepop")
    assert correction_by_name("icepop") == IcePop()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("clip", "expected one of"),
        ({"high": 2.0}, "correction None"),
        ({"name": "tis", "cap": 2.0}, "unknown option 'cap'"),
        ({"name": "none", "cap": 2.0}, "among none"),
        ({"name": "tis", "low": 3.0}, "expected a number of at least 3"),
        ({"name": "icepop", "high": -1.0}, "expected a number"),
        ({"name": "ppo", "dual": 0.5}, "inf turns it off"),
        ({"name": "cispo", "low": 2.0}, "expected a number from 0 to 1"),
        ({"name": "dppo_tv", "truncate": 0.5}, "inf turns it off"),
        ({"name": "dppo_kl", "low": -1.0}, "expected a number"),
        ({"name": "ipo", "bound": 2.0}, "expected a number"),
        ({"name": "seq_mis", "high": -1.0}, "expected a number"),
        ({"name": "trust_region", "divergence": "k1"}, "expected one of 'k3', 'bernoulli'"),
        ({"name": "opsm", "bound": True}, "expected a number"),
        ({"name": "m2po", "form": "drop"}, "expected one of 'clip', 'exact', 'mask'"),
        ({"name": "m2po", "budget": -1.0}, "expected a number"),
        ({"name": "decoupled_ppo", "beyond_cap": "drop"}, "expected one of 'mask', 'clamp'"),
        ({"name": "a3po", "low": 2.0}, "expected a number from 0 to 1"),
    ],
    ids=str,
)
def test_a_bad_correction_is_refused_where_it_is_set(rule, words):
    """An unknown name, an unknown option, a bad value."""
    with pytest.raises(SettingsError, match=words):
        Reinforce(correction=rule)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (Reinforce, {"baseline": "mean"}),
        (Reinforce, {"aggregation": "sum"}),
        (GRPO, {"scaled": 1}),
        (GRPO, {"epsilon": -1.0}),
        (GRPO, {"singleton": "skip"}),
        (RAE, {"decay": 1.1}),
        (RAE, {"state": {"a": "x"}}),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_set(method, options):
    """With its name, its value and the bound."""
    (name,) = options
    with pytest.raises(SettingsError, match=rf"{method.__name__}\({name}=.*expected"):
        method(**options)


@pytest.mark.parametrize("lag", [0, 8])
@pytest.mark.parametrize("name", [name for name in CORRECTIONS if name != "score_centering"])
def test_a_toy_policy_climbs_from_chance(name, lag):
    """With each correction and with none, at lag 0 and at eight updates of lag."""
    assert climbs(Reinforce(correction=name), above=0.6, lag=lag, learning_rate=12.0, num_updates=40)


@pytest.mark.parametrize("lag", [0, 8])
@pytest.mark.parametrize("method", [GRPO(), RAE()], ids=lambda method: method.name)
def test_a_toy_policy_climbs_from_chance_under_another_baseline(method, lag):
    """That of an ask and that of a key, at lag 0 and at eight updates of lag."""
    assert climbs(method, above=0.6, lag=lag, learning_rate=12.0, num_updates=40)
