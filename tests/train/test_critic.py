"""The critic: what it sees, how it learns, and that it goes on where it stopped."""

from dataclasses import replace

import pyarrow as pa
import pytest
import torch

from schemas.errors import CheckpointError
from tests.train.logged import OPTIMIZATION, facts
from train.checkpoint import restore, save_checkpoint
from train.critic import Critic, Lesson, keep_critic
from train.learner import Learner
from train.methods import BPCO, SAO
from train.packing import build_packs
from train.policy import Policy
from train.replay import CriticSettings


def critic_of(size=3, *, value_range=None, rate=0.05, steps=2, warmup=0):
    """A new critic."""
    settings = CriticSettings(learning_rate=rate, steps=steps, warmup_updates=warmup)
    return Critic(hidden_size=size, settings=settings, value_range=value_range, device=torch.device("cpu"))


def test_a_new_critic_says_the_reward_that_it_is_started_at():
    """Everywhere, bounded or not."""
    hidden = torch.randn(5, 3)
    for value_range in (None, (0.0, 1.0), (-2.0, 3.0)):
        critic = critic_of(value_range=value_range)
        critic.start_at(0.3)
        assert critic.values(hidden).tolist() == pytest.approx([0.3] * 5, abs=1e-6)


def test_a_bounded_critic_does_not_start_at_an_end():
    """Started at 0 of (0, 1), where its slope is 0 and it would stay, it starts at 0.02."""
    critic = critic_of(value_range=(0.0, 1.0))
    critic.start_at(0.0)
    assert critic.values(torch.zeros(1, 3)).item() == pytest.approx(0.02, abs=1e-6)


def test_a_critic_that_has_learned_is_not_started_again():
    """It would forget its mean."""
    critic = critic_of()
    critic.learn([Lesson(torch.ones(2, 3), torch.ones(2))])
    before = critic.values(torch.ones(2, 3))
    critic.start_at(0.5)
    assert torch.equal(critic.values(torch.ones(2, 3)), before)


@pytest.mark.parametrize("value_range", [None, (0.0, 1.0)])
def test_a_critic_learns_what_its_states_tell(value_range):
    """The reward is whether the first entry is positive: it explains most of the variance after 200 batches."""
    random = torch.Generator().manual_seed(0)
    critic = critic_of(8, value_range=value_range)
    losses = []
    for _ in range(200):
        hidden = torch.randn(64, 8, generator=random)
        losses.append(critic.learn([Lesson(hidden, (hidden[:, 0] > 0).float())]))
    assert losses[-1] < 0.4 * losses[0]


def test_a_critic_never_moves_the_trunk():
    """Its gradient ends at its own weights."""
    hidden = torch.randn(4, 3, requires_grad=True)
    critic = critic_of()
    critic.values(critic.states(None, hidden)).sum().backward()
    assert hidden.grad is None


def test_a_kept_critic_goes_on_bit_for_bit(tmp_path):
    """Weights, momentum and the count of its batches."""
    hidden, targets = torch.randn(6, 3), torch.rand(6)
    straight, stopped, resumed = (critic_of(value_range=(0.0, 1.0)) for _ in range(3))
    for critic in (straight, stopped):
        critic.learn([Lesson(hidden, targets)])
    keep_critic(stopped, tmp_path / "critics" / "v1")
    resumed.load(tmp_path / "critics" / "v1")
    for critic in (straight, resumed):
        critic.learn([Lesson(hidden, targets)])
    assert torch.equal(straight.values(hidden), resumed.values(hidden))
    assert resumed.num_updates == 2


def test_a_critic_of_another_range_or_trunk_is_refused(tmp_path):
    """Its numbers mean something else."""
    keep_critic(critic_of(3, value_range=(0.0, 1.0)), tmp_path / "v1")
    for other in (critic_of(3, value_range=(-1.0, 1.0)), critic_of(4, value_range=(0.0, 1.0))):
        with pytest.raises(
            CheckpointError, match=r"expected .*; it was made for another model, another reward_range or"
        ):
            other.load(tmp_path / "v1")


def test_a_damaged_critic_is_refused_with_what_to_do(tmp_path):
    """Cut in half."""
    keep_critic(critic_of(), tmp_path / "v1")
    file = tmp_path / "v1" / "critic.safetensors"
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(CheckpointError, match=r"the critic cannot be read .* remove them to begin with a new critic"):
        critic_of().load(tmp_path / "v1")


REWARDS = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)


def rewards_of(traces):
    """One a trace."""
    return {trace[0].trace_id: REWARDS[number] for number, trace in enumerate(traces)}


def learner_of(folder, adapter, method, *, warmup=0, token_budget=10_000):
    """A learner with a critic, on the adapter."""
    policy = Policy.load(folder)
    policy.use(adapter)
    critic = critic_of(policy.hidden_size, value_range=method.value_range, warmup=warmup)
    return Learner(policy, method, OPTIMIZATION, token_budget, critic)


def test_a_value_is_read_before_its_token(tiny_folder, adapter, traces):
    """Other action tokens at the end of a sequence change nothing that the critic says of them."""
    learner = learner_of(tiny_folder, adapter, SAO())
    sequence = traces[0][0]
    last = int(sequence.action_mask.nonzero()[0][-1])
    changed = sequence.token_ids.copy()
    changed[last] = (changed[last] + 7) % 60
    with torch.no_grad():
        first, second = (
            learner.policy.score(build_packs([(each,)], token_budget=10_000)[0], with_hidden=True).hidden
            for each in (sequence, replace(sequence, token_ids=changed))
        )
    assert torch.equal(first, second)


@pytest.mark.parametrize("method", [SAO(), BPCO()])
def test_the_update_is_the_methods_on_the_critics_values(method, tiny_folder, adapter, traces):
    """Coefficients in one pack or in six; the values are those from before the critic learns from the batch."""
    made = []
    for token_budget in (10_000, 70):
        learner = learner_of(tiny_folder, adapter, method, token_budget=token_budget)
        update = learner.learn(0, traces, facts(rewards_of(traces))).update
        assert update.batch.values.tolist() == pytest.approx([0.5] * len(update.coefficients), abs=1e-6)
        made.append({trace.trace_id: trace.coefficients for trace in update.per_trace()})
    for trace_id, expected in made[0].items():
        assert made[1][trace_id] == pytest.approx(expected, abs=1e-6)


def test_the_policy_waits_while_the_critic_warms_up(tiny_folder, adapter, traces):
    """Two batches for the critic alone, then the policy moves; the account says so."""
    learner = learner_of(tiny_folder, adapter, SAO(), warmup=2)
    before = {name: weight.clone() for name, weight in learner.parameters.items()}
    for number in range(2):
        learned = learner.learn(number, traces, facts(rewards_of(traces)))
        assert not learned.moved
        assert not learned.update.coefficients.any()
        assert not learned.update.in_trust.any()
        assert "the critic warms up on this batch: the policy was not moved" in str(learned.update)
    assert all(torch.equal(weight, before[name]) for name, weight in learner.parameters.items())
    assert learner.learn(2, traces, facts(rewards_of(traces))).moved
    assert not all(torch.equal(weight, before[name]) for name, weight in learner.parameters.items())


def test_explained_variance_is_of_traces_that_it_has_not_learned_from(tiny_folder, adapter, traces):
    """0 for a critic that says the mean, and more once it has seen the very same traces often."""
    learner = learner_of(tiny_folder, adapter, SAO(), warmup=100)
    figures = [learner.learn(number, traces, facts(rewards_of(traces))).figures for number in range(40)]
    assert figures[0]["critic_explained_variance"] == pytest.approx(0.0, abs=1e-5)
    assert figures[-1]["critic_explained_variance"] > 0.3
    assert figures[-1]["critic_loss"] < figures[0]["critic_loss"]
    assert [each["critic_updates"] for each in figures] == list(range(1, 41))


def test_a_restored_learner_goes_on_with_its_critic_bit_for_bit(tiny_folder, adapter, traces, tmp_path):
    """Two updates, a checkpoint, two more: policy and critic as after four in a row."""
    straight, stopped = (learner_of(tiny_folder, adapter, BPCO(), warmup=1) for _ in range(2))
    for number in range(4):
        straight.learn(number, traces, facts(rewards_of(traces)))
    for number in range(2):
        stopped.learn(number, traces, facts(rewards_of(traces)))
    rows = pa.table({"trace_id": ["a"]})
    saved = save_checkpoint(stopped, tmp_path / "run", history=[{"update": 0}, {"update": 1}], replays=rows)
    resumed = learner_of(tiny_folder, saved.folder, BPCO(), warmup=1)
    restore(resumed, saved)
    for number in range(2, 4):
        resumed.learn(number, traces, facts(rewards_of(traces)))
    assert all(torch.equal(weight, resumed.parameters[name]) for name, weight in straight.parameters.items())
    assert torch.equal(straight.critic.weight, resumed.critic.weight)
