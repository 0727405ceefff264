"""Log-probabilities of action tokens: the shift, the temperature, the blocks, the gradient."""

import math

import pytest
import torch

from tests.train.logged import logged
from train import logprobs
from train.logprobs import ActionTokens, BehaviorStates, action_tokens, token_logprobs
from train.packing import make_pack


def _inputs(num=7, size=5, vocabulary=11, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    hidden, weight = (
        torch.randn(rows, size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for rows in (num, vocabulary)
    )
    bias = torch.randn(vocabulary, generator=generator).requires_grad_()
    tokens = ActionTokens(
        slots=torch.arange(num),
        token_ids=torch.randint(0, vocabulary, (num,), generator=generator),
        temperatures=torch.tensor([1.0, 0.7, 2.0, 1.0, 0.5, 1.3, 1.0]),
    )
    return hidden, weight, bias, tokens


def _full(hidden, weight, bias, tokens):
    """The same from all logits at once, by autograd."""
    logits = (hidden.float() @ weight.float().T + bias) / tokens.temperatures[:, None]
    return torch.log_softmax(logits, -1).gather(-1, tokens.token_ids[:, None])[:, 0]


def test_a_token_is_predicted_at_the_slot_of_the_token_before_it():
    """Tokens 3 and 4 of the first sequence and 3 of the second lie behind slots 2, 3 and 7."""
    pack = make_pack([logged([5, 6, 7, 8, 9], [3, 4]), logged([5, 6, 7, 4], [3])], share=False)
    tokens = action_tokens(pack)
    assert tokens.slots.tolist() == [2, 3, 7]
    assert tokens.token_ids.tolist() == [8, 9, 4]


def test_the_first_token_behind_a_shared_beginning_is_predicted_by_its_last_slot():
    """Both sequences part after ten shared tokens, so slot 9 predicts both."""
    pack = make_pack([logged([*range(10), leaf, 1], [10, 11], trace=str(leaf)) for leaf in (20, 21)])
    assert action_tokens(pack).slots.tolist() == [9, 10, 9, 12]


def test_each_token_keeps_the_temperature_of_its_sequence():
    """Temperatures stand beside their tokens, sequence after sequence."""
    pack = make_pack([logged([1, 2, 3], [1, 2], temperature=0.7), logged([4, 5], [1])])
    assert action_tokens(pack).temperatures.tolist() == pytest.approx([0.7, 0.7, 1.0])


def test_a_temperature_divides_the_logits():
    """Logits 1 and 0 at temperature 0.5 are 2 and 0: log(1 / (1 + e^-2))."""
    tokens = ActionTokens(torch.tensor([0]), torch.tensor([0]), torch.tensor([0.5]))
    result = token_logprobs(torch.ones(1, 1), torch.tensor([[1.0], [0.0]]), None, tokens).logprobs
    assert result.item() == pytest.approx(-math.log1p(math.exp(-2.0)), abs=1e-7)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_blocks_of_any_size_give_the_gradient_of_full_logits(block, monkeypatch):
    """Values and gradients of hidden states, head and bias equal autograd's over all logits."""
    monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", block * 11)
    results = []
    for compute in (lambda *inputs: token_logprobs(*inputs).logprobs, _full):
        *leaves, tokens = _inputs()
        values = compute(*leaves, tokens)
        (values * torch.linspace(-1, 2, len(values))).sum().backward()
        results.append([values, *(leaf.grad for leaf in leaves)])
    for ours, full in zip(*results, strict=True):
        # float32 over 11 words and 5 dimensions.
        torch.testing.assert_close(ours, full, atol=1e-6, rtol=1e-5)


def test_autocast_does_not_reach_the_softmax():
    """Under bfloat16 autocast the numbers are the very same: a bfloat16 softmax would be off by 1e-2."""
    hidden, weight, bias, tokens = _inputs()
    plain = token_logprobs(hidden, weight, bias, tokens).logprobs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = token_logprobs(hidden, weight, bias, tokens).logprobs
    assert torch.equal(plain, under_autocast)


def test_bfloat16_states_give_float32_logprobs():
    """Half precision is promoted before the head, and gradients come back in their own type."""
    hidden, weight, bias, tokens = _inputs(dtype=torch.bfloat16)
    values = token_logprobs(hidden, weight, bias, tokens).logprobs
    values.sum().backward()
    assert values.dtype == torch.float32
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16
    torch.testing.assert_close(values, _full(hidden, weight, bias, tokens), atol=1e-6, rtol=1e-5)


def test_the_entropy_of_equal_logits_is_that_of_the_vocabulary():
    """A head of zeros makes every word equally likely: log 11 nats."""
    hidden, weight, _, tokens = _inputs()
    scores = token_logprobs(hidden, torch.zeros_like(weight), None, tokens, with_entropies=True)
    values, entropies = scores.logprobs, scores.entropies
    assert entropies.tolist() == pytest.approx([math.log(11)] * 7, abs=1e-6)
    assert values.tolist() == pytest.approx([-math.log(11)] * 7, abs=1e-6)


def test_entropies_are_made_only_when_asked_for():
    """They cost a pass over the vocabulary."""
    assert token_logprobs(*_inputs()).entropies is None


@pytest.mark.parametrize("block", [1, 3, 100])
def test_expectations_under_the_behavior_policy_are_those_of_full_logits(block, monkeypatch):
    """Sum q log p and its gradient, beside that of the log-probability; sum q log q is a constant."""
    monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", block * 11)
    behavior = torch.randn(7, 5, generator=torch.Generator().manual_seed(9))
    *leaves, tokens = _inputs()
    *others, _ = _inputs()
    scores = token_logprobs(*leaves, tokens, behavior=BehaviorStates(behavior, leaves[1].detach(), leaves[2].detach()))
    log_p, log_q = (
        torch.log_softmax((states @ others[1].T + others[2]) / tokens.temperatures[:, None], -1)
        for states in (others[0], behavior)
    )
    q = log_q.detach().exp()
    expected = (q * log_p).sum(-1)
    torch.testing.assert_close(scores.expected_logprobs, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(scores.expected_behavior_logprobs, (q * log_q).sum(-1).detach(), atol=1e-6, rtol=1e-5)
    weights = torch.linspace(-1, 2, 7)
    (weights * scores.logprobs + weights.flip(0) * scores.expected_logprobs).sum().backward()
    (weights * log_p.gather(-1, tokens.token_ids[:, None])[:, 0] + weights.flip(0) * expected).sum().backward()
    for ours, full in zip(leaves, others, strict=True):
        torch.testing.assert_close(ours.grad, full.grad, atol=1e-5, rtol=1e-5)


def test_a_policy_expects_of_itself_its_own_entropy():
    """Sum p log p is minus the entropy, and nothing is gained by moving: its gradient is 0."""
    hidden, weight, bias, tokens = _inputs()
    itself = BehaviorStates(hidden.detach(), weight.detach(), bias.detach())
    scores = token_logprobs(hidden, weight, bias, tokens, with_entropies=True, behavior=itself)
    scores.expected_logprobs.sum().backward()
    torch.testing.assert_close(scores.expected_logprobs.detach(), -scores.entropies, atol=1e-6, rtol=1e-6)
    assert float(hidden.grad.abs().max()) < 1e-6
