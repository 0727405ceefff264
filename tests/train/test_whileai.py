"""Our methods beside whileai 0.131, which has three of them, and a test for each choice where sources disagree."""

import math
import random

import pytest
import torch
import whileai

from schemas.errors import BatchError, TrainingError
from train.batch import Batch
from train.methods import BPCO, GRPO, KLPO, SAO, FlashReinforce, Reinforce
from train.methods.corrections import DPPOTV, IPO, IcePop
from train.methods.gates import SequenceMIS
from train.methods.proximal import M2PO

NUM_BATCHES = 300
DRIFTS = (0.0, 0.005, 0.03, 0.1, 0.4, 1.2, 3.0)
"""Deviations of the noise between the two policies, in nats, by turns."""

AGREES = 1e-12
"""The same float64 numbers summed in another order, relative to max(1, their size)."""


def batch_of(*rows):
    """Rows in float64."""
    return Batch.from_rows(list(rows), dtype=torch.float64)


def row(reward=1.0, now=-0.5, then=None, **more):
    """A trace of one token, or of several where lists are given."""
    now = now if isinstance(now, list) else [now]
    then = now if then is None else then if isinstance(then, list) else [then]
    return {"reward": reward, "logprobs": now, "behavior_logprobs": then, "values": [0.5] * len(now)} | more


def random_rows(dice, drift, *, empty):
    """A batch of one to six traces of one to seven tokens, tool tokens among them, traces of nothing else if `empty`."""
    made = []
    for _ in range(dice.randint(1, 6)):
        mask = [dice.random() < 0.7 for _ in range(dice.randint(1, 7))]
        mask[dice.randrange(len(mask))] = not empty or dice.random() < 0.9
        then = [-dice.expovariate(0.7) - 1e-3 for _ in mask]
        now = [min(-1e-6, logprob + dice.gauss(0.0, drift)) for logprob in then]
        values = [dice.random() for _ in mask]
        made.append(row(dice.choice([0.0, 1.0, 0.25, 0.3]), now, then, values=values, action_mask=mask))
    return made if any(any(own["action_mask"]) for own in made) else random_rows(dice, drift, empty=empty)


def pairs(ours, theirs, *, empty=False):
    """The updates of random batches by our method and by whileai's."""
    dice = random.Random(7)  # noqa: S311 - numbers for a test
    for number in range(NUM_BATCHES):
        rows = random_rows(dice, DRIFTS[number % len(DRIFTS)], empty=empty)
        yield len(rows), ours.update(batch_of(*rows)), theirs.update(rows)


def agree(ours, theirs):
    """Whether two lists of numbers agree, NaN with NaN."""
    return list(theirs) == pytest.approx(list(ours), rel=AGREES, abs=AGREES, nan_ok=True)


def acted(update, nested):
    """Whileai's numbers of action tokens, in our order."""
    flat = [entry for part in nested for entry in part]
    return [value for value, action in zip(flat, update.batch.action_mask.tolist(), strict=True) if action]


def assert_same(ours, theirs, stats, scale=1.0):
    """Coefficients, advantages, trust, targets and figures of one batch; `scale` is a normaliser that they lack."""
    mask = ours.batch.action_mask
    assert agree((ours.coefficients[mask] * scale).tolist(), acted(ours, theirs.coefficients))
    assert agree(ours.advantages[mask].tolist(), acted(ours, theirs.advantages))
    assert ours.in_trust.tolist() == theirs.admitted
    if theirs.value_targets is not None:
        assert agree(ours.value_targets[mask].tolist(), acted(ours, theirs.value_targets))
    assert agree([ours.stats[name] for name in stats.values()], [theirs.stats[name] for name in stats])


@pytest.mark.parametrize("trust", [0.003, 0.05, math.inf])
def test_flash_reinforce_agrees_with_whileai(trust):
    """On 300 random batches at three widths of the gate."""
    names = {"batch_mean_reward": "batch_mean_reward", "admitted_share": "in_trust_share", "mean_ratio": "mean_ratio"}
    names |= {"mean_sequence_kl": "mean_drift", "max_sequence_kl": "max_drift"}
    for _, ours, theirs in pairs(FlashReinforce(trust=trust), whileai.FlashReinforce(trust=trust)):
        assert_same(ours, theirs, names)


@pytest.mark.parametrize("band", [(0.7, 6.0), (0.2, 4.0)])
def test_sao_agrees_with_whileai(band):
    """On 300 random batches under both bands, traces without an action token among them."""
    names = {"admitted_share": "in_trust_share", "masked_token_share": "masked_token_share"}
    names |= {"mean_advantage": "mean_advantage", "lambda_mean": "mean_lambda", "action_tokens": "num_action_tokens"}
    for _, ours, theirs in pairs(SAO(band=band), whileai.SAO(ratio=band), empty=True):
        assert_same(ours, theirs, names)


@pytest.mark.parametrize("clip", [0.2, 0.01])
def test_bpco_agrees_with_whileai_but_for_a_normaliser(clip):
    """On 300 random batches: theirs are B times ours, which is difference 2."""
    names = {"admitted_share": "in_trust_share", "clipped_token_share": "clipped_token_share"}
    names |= {name: name for name in ("mean_ratio", "mean_advantage", "mean_clip_range", "mean_lambda")}
    for num_traces, ours, theirs in pairs(BPCO(clip=clip), whileai.BPCO(clip=clip), empty=True):
        assert_same(ours, theirs, names, scale=num_traces)


# What whileai does otherwise than the papers, numbered as in the comparison of both.


def test_1_a_rare_token_is_closed_by_its_probability():
    """From e^-30 to 0.6: theirs stays open at half of e^20, for the cut ratio is below 1 + clip/mu; ours closes it."""
    rare = row(1.0, -0.5, -30.0)
    assert whileai.BPCO().update([rare]).coefficients == [[pytest.approx(0.5 * math.exp(20.0))]]
    assert BPCO().update(batch_of(rare)).coefficients.tolist() == [0.0]
    assert BPCO(mask_rule="ratio").update(batch_of(rare)).coefficients.tolist() == [pytest.approx(0.5 * math.exp(20))]


@pytest.mark.parametrize(
    ("ours", "theirs", "grows"),
    [(FlashReinforce(), whileai.FlashReinforce(), 1), (SAO(), whileai.SAO(), 1), (BPCO(), whileai.BPCO(), 2)],
    ids=["flash", "sao", "bpco"],
)
def test_2_a_batch_twice_over_has_the_same_update(ours, theirs, grows):
    """The sum of coefficients does not grow with the batch; theirs of BPCO does, for it has no 1/B."""
    rows = [row(1.0, [-0.5, -0.6]), row(0.0, values=[0.2])]

    def mass(update):
        return sum(abs(entry) for part in update.coefficients for entry in part)

    assert mass(theirs.update(rows * 2)) == pytest.approx(grows * mass(theirs.update(rows)))
    once, twice = (ours.update(batch_of(*rows * times)).coefficients.abs().sum() for times in (1, 2))
    assert float(once) == pytest.approx(float(twice))


def test_3_a_negative_lambda_is_put_at_zero():
    """T = 2 at alpha 0.4: A_1 = 0.7 - 0.5 as theirs; the release keeps -0.25, A_1 = 0.2 - 0.25 (1 - 0.7)."""
    short = row(1.0, [-0.5, -0.5], values=[0.5, 0.7])
    assert whileai.BPCO().update([short]).advantages[0][0] == pytest.approx(0.2)
    assert BPCO().update(batch_of(short)).advantages.tolist()[0] == pytest.approx(0.2)
    assert BPCO(lambda_floor=False).update(batch_of(short)).advantages.tolist()[0] == pytest.approx(0.2 - 0.25 * 0.3)


def test_4_a_reward_is_on_the_last_action_token_whatever_follows():
    """A = R - V there, as theirs; the release reads 0 - V when an observation ends the trace."""
    ends = row(1.0, [-0.5, -0.5], values=[0.4, 0.9], action_mask=[True, False])
    assert BPCO().update(batch_of(ends)).advantages.tolist() == [pytest.approx(0.6), 0.0]
    assert whileai.BPCO().update([ends]).advantages == [[pytest.approx(0.6), 0.0]]


def test_5_a_value_under_the_mask_is_never_read():
    """Theirs refuses one that is out of range; on an action token both do."""
    masked = row(1.0, [-0.5, -0.5], values=[0.4, 1.5], action_mask=[True, False])
    with pytest.raises(ValueError, match="outside reward_range"):
        whileai.BPCO().update([masked])
    assert BPCO().update(batch_of(masked)).coefficients.tolist() == [pytest.approx(0.6), 0.0]


def test_6_equal_rewards_leave_no_explained_variance():
    """Three rewards of 0.1: theirs divides by a variance of 1e-34."""
    rows = [row(0.1, values=[0.5 - 0.01 * place]) for place in range(3)]
    assert whileai.BPCO().update(rows).stats["explained_variance"] < -1e28
    assert "explained_variance" not in BPCO().update(batch_of(*rows)).stats


def test_7_a_trust_of_zero_admits_the_very_same_policy():
    """Theirs refuses the setting."""
    with pytest.raises(ValueError, match="trust must be above 0"):
        whileai.FlashReinforce(trust=0.0)
    made = FlashReinforce(trust=0.0).update(batch_of(row(), row(0.0, -0.6, -0.5)))
    assert made.in_trust.tolist() == [True, False]


def test_7_an_overflowing_ratio_stops_the_update():
    """Theirs cuts it at e^30 unasked; ours when told to."""
    rows = [row(1.0, -0.5, -900.0), row(0.0)]
    theirs = whileai.FlashReinforce(trust=math.inf).update(rows)
    with pytest.raises(TrainingError, match="the coefficient overflows"):
        FlashReinforce(trust=math.inf).update(batch_of(*rows))
    cut = FlashReinforce(trust=math.inf, overflow="clamp").update(batch_of(*rows))
    assert cut.coefficients[0].item() == pytest.approx(0.25 * math.exp(30.0))
    assert theirs.coefficients[0] == [pytest.approx(0.25 * math.exp(30.0))]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(FlashReinforce(), whileai.FlashReinforce()), (SAO(), whileai.SAO()), (BPCO(), whileai.BPCO())],
    ids=["flash", "sao", "bpco"],
)
def test_7_a_trace_without_behavior_logprobs_is_refused(ours, theirs):
    """Theirs takes it as written by the policy itself."""
    rows = [{key: value for key, value in row(reward).items() if key != "behavior_logprobs"} for reward in (1.0, 0.0)]
    assert theirs.update(rows).admitted == [True, True]
    with pytest.raises(BatchError, match="have no behavior_logprobs"):
        ours.update(batch_of(*rows))


def test_7_failed_traces_can_lose_their_certain_tokens():
    """The reference's entropy filter, which theirs lacks: of two tokens the one of higher entropy stays, T is still 2."""
    failed = row(0.0, [-0.5, -0.5], entropies=[0.1, 0.9], failure=True)
    passed = row(1.0, entropies=[0.5], failure=False)
    made = FlashReinforce(negative_token_fraction=0.5).update(batch_of(failed, passed))
    assert made.coefficients.tolist() == pytest.approx([0.0, -0.5 / (2 * 2), 0.5 / 2])


@pytest.mark.parametrize("wrong", [math.nan, 0.1])
def test_8_a_logprob_that_is_none_is_refused(wrong):
    """Theirs masks NaN in silence, for it is in no band, and takes a positive one."""
    now = row(1.0, [-0.5, wrong], [-0.5, 0.0])
    assert whileai.SAO().update([now]).admitted == [True]
    with pytest.raises(BatchError, match="trace 0, token 1"):
        SAO().update(batch_of(now))


def test_9_lambda_one_can_be_reached():
    """The release's sanity script has it: A_t = R - V_t, up to 1/(alpha T) of the difference."""
    made = BPCO(gae_alpha=1e12).update(batch_of(row(1.0, [-0.5] * 3, values=[0.1, 0.8, 0.3])))
    assert made.advantages.tolist() == pytest.approx([0.9, 0.2, 0.7])
    assert BPCO().gae_alpha == whileai.BPCO().gae_alpha == 0.4


def test_10_a_version_of_prime_rl_is_named():
    """A move of 0.2 is beyond the 0.1 of its August loss, and within the 0.3 that whileai has from a later one."""
    moved = batch_of(row(1.0, math.log(0.5), math.log(0.3)))
    assert Reinforce(baseline=0.0, correction=IPO()).update(moved).coefficients.tolist() == [0.0]
    later = Reinforce(baseline=0.0, correction=IPO(bound=whileai.Async("rae").eps)).update(moved)
    assert later.coefficients.tolist() == [pytest.approx(5 / 3)]


# Where public projects disagree with each other or with themselves.


def test_11_flash_trusts_as_its_loss_does():
    """A drift of 0.002 nats is within the 3e-3 of its loss and beyond the 1e-3 of its common settings."""
    rows = batch_of(row(1.0, math.log(0.5316), math.log(0.5)), row(0.0))
    made = FlashReinforce().update(rows)
    assert 0.001 < float(made.drift[0]) < 0.003
    assert made.in_trust.tolist() == [True, True]
    assert FlashReinforce(trust=1e-3).update(rows).in_trust.tolist() == [False, True]


def test_12_klpo_weighs_the_log_ratio_as_its_launcher_does():
    """Residual 1 - 0.1 ell at a log-ratio of 1; the library's 1e-3 since October is one option away."""
    rows = batch_of(row(1.0, -0.5, -1.5))
    for beta, method in ((0.1, KLPO(centering="binary")), (1e-3, KLPO(centering="binary", beta=1e-3))):
        assert method.update(rows).advantages.tolist() == [pytest.approx(1.0 - beta)]


def test_13_a_group_of_one_is_refused():
    """The formula and TRL give it 0, verl its raw reward: both can be asked for."""
    alone = batch_of(row(1.0, group="x"), row(0.5, group="y"))
    with pytest.raises(BatchError, match="alone in its group"):
        GRPO().update(alone)
    assert GRPO(singleton="zero").update(alone).advantages.tolist() == [0.0, 0.0]
    assert GRPO(singleton="raw", scaled=False).update(alone).advantages.tolist() == [1.0, 0.5]


def m2po(log_ratios, advantages, **options):
    """The weights of M2PO for tokens of one trace, each with its own advantage."""
    batch = batch_of(row(1.0, [-10.0 + value for value in log_ratios], [-10.0] * len(log_ratios)))
    return M2PO(**options).weigh(batch, torch.tensor(advantages, dtype=torch.float64)).factors.tolist()


def test_14_m2po_clips_what_moved_with_its_advantage_and_its_mask_does_not_ask():
    """A good token that became rare does no harm: the authors' clip leaves it, AReaL's mask drops it."""
    assert m2po([0.0, -3.0], [1.0, 1.0]) == [1.0, pytest.approx(math.exp(-3.0))]
    assert m2po([0.0, -3.0], [1.0, 1.0], form="mask") == [1.0, 0.0]


@pytest.mark.parametrize("first", [1.0, 0.0])
def test_14_and_21_m2po_reads_the_sign_of_each_token(first):
    """A bad token at e^-3 behind a good one, or one of advantage 0: the release reads only that and clips nothing."""
    assert m2po([0.0, -3.0], [first, -1.0]) == [1.0, 0.0]


def test_15_icepop_keeps_its_bounds_and_sao_does_not():
    """A ratio of exactly 1 on a bound of 1."""
    same = batch_of(row(1.0))
    assert Reinforce(baseline=0.0, correction=IcePop(low=1.0)).update(same).coefficients.tolist() == [1.0]
    assert SAO(band=(1.0, 6.0)).update(same).coefficients.tolist() == [0.0]


@pytest.mark.parametrize(("product", "kept"), [(0.1, True), (1.15, True), (1.25, False)])
def test_16_a_bound_on_a_ratio_bounds_the_ratio(product, kept):
    """High 1.2 drops 1.25 and keeps 0.1; verl's k1 bounds are on -log rho, where the same pair does the opposite."""
    moved = batch_of(row(1.0, math.log(0.5 * product), math.log(0.5)))
    method = Reinforce(baseline=0.0, correction=SequenceMIS(high=1.2))
    assert method.update(moved).in_trust.tolist() == [kept]


def test_16_one_action_token_is_a_batch():
    """Nothing is whitened, so a variance of one number is never taken; verl's GAE raises."""
    assert SAO().update(batch_of(row(1.0))).advantages.tolist() == [0.5]


def test_17_a_dppo_ratio_is_bounded_when_told_to():
    """From e^-9 to e^-3, a move of 0.05: e^6 as in golden_critic and prime-rl, 10 as in Stable-RL."""
    rare = batch_of(row(1.0, -3.0, -9.0))
    for truncate, weight in ((math.inf, math.exp(6.0)), (10.0, 10.0)):
        made = Reinforce(baseline=0.0, correction=DPPOTV(truncate=truncate)).update(rare)
        assert made.coefficients.tolist() == [pytest.approx(weight)]


@pytest.mark.parametrize(
    "method",
    [FlashReinforce(), SAO(), BPCO(), Reinforce(correction="ipo"), Reinforce(correction="dppo_tv")],
    ids=lambda method: f"{method!r:.60}",
)
def test_20_a_masked_token_at_log_ratio_99_gives_a_finite_gradient(method):
    """In float32, where e^99 overflows and a mask that multiplies makes NaN of it, as in prime-rl's loss."""
    rows = [row(1.0, [-0.5, -0.5], [-0.5, -99.5], action_mask=[True, False]), row(0.0, [-0.5, -0.6])]
    update = method.update(Batch.from_rows(rows, dtype=torch.float32))
    logprobs = update.batch.logprobs.clone().requires_grad_()
    loss = update.loss(logprobs)
    loss.backward()
    multiplied = torch.exp(update.batch.logprobs - update.batch.behavior_logprobs) * update.batch.action_mask
    assert bool(multiplied.isnan().any())
    assert torch.isfinite(loss)
    assert torch.equal(logprobs.grad, -update.coefficients)
    assert update.coefficients[1] == 0.0


def test_21_a_tiny_second_moment_is_a_bound_like_any_other():
    """Tau^2 of 1e-14 lies below the 1e-12 that the release takes off it, and takes a root of: complex, TypeError."""
    assert m2po([1e-7, 3.0], [1.0, 1.0]) == [pytest.approx(1.0 + 1e-7), 0.0]
