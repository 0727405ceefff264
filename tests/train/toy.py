"""A toy world: a policy that is a table of probabilities, trained on traces that it wrote some updates ago."""

import os

import torch

from train.batch import Batch
from train.records import Records

NUM_ASKS, NUM_ACTIONS, NUM_TOKENS = 6, 4, 2
"""Each ask has one right action at each of two tokens; between them stands a tool token that nobody sampled."""


CRITIC_RATE = 0.1
"""Share of the way to its targets that the critic's table goes with each update."""

SEEDS = (11, 12, 13)[: int(os.environ.get("TRACEMILL_SEEDS", "1"))]
"""What a method can do it does for each of these; nothing was chosen by looking at them. `make soak` takes all."""


def climbs(method, *, above, **world):
    """Whether the policy starts from chance and ends above so much accuracy with each of the seeds; `climb` has the rest."""
    ends = []
    for seed in SEEDS:
        accuracy = climb(method, seed=seed, **world)
        assert abs(accuracy[0] - 1 / NUM_ACTIONS) < 1e-6
        ends.append(accuracy[-1])
    return min(ends) > above


def climb(method, *, lag, learning_rate, num_updates, num_traces=128, seed, kind=None):
    """Expected share of right tokens after each update, plain gradient ascent, one trace an ask and try.

    The reward is the share of right tokens. `lag` is how many updates ago the traces were written. The critic is a table
    too, by ask and what was written so far; it learns from the targets of the method, if there are any. `kind` is that
    of the records that the traces carry.
    """
    random = torch.Generator().manual_seed(seed)
    right = torch.randint(NUM_ACTIONS, (NUM_ASKS, NUM_TOKENS), generator=random)
    logits = torch.zeros(NUM_ASKS, NUM_TOKENS, NUM_ACTIONS, requires_grad=True)
    critic = torch.full((NUM_ASKS, 1 + NUM_ACTIONS), 0.5)
    past, accuracy = [logits.detach().clone()], []
    for _ in range(num_updates):
        probabilities = torch.softmax(logits.detach(), -1)
        accuracy.append(float(probabilities.gather(-1, right[..., None]).mean()))
        asks = torch.randint(NUM_ASKS, (num_traces,), generator=random)
        written = torch.log_softmax(past[max(0, len(past) - 1 - lag)], -1)[asks]
        tokens = torch.multinomial(written.exp().reshape(-1, NUM_ACTIONS), 1, generator=random).reshape(num_traces, -1)
        rewards = (tokens == right[asks]).to(torch.float32).mean(1)
        logprobs = _with_tool(torch.log_softmax(logits, -1)[asks].gather(-1, tokens[..., None])[..., 0])
        halfway = torch.log_softmax(past[max(0, len(past) - 1 - lag // 2)], -1)[asks]
        logged, prox = (
            _with_tool(policy.gather(-1, tokens[..., None])[..., 0]).flatten() for policy in (written, halfway)
        )
        prefixes = torch.stack([torch.zeros_like(asks), 1 + tokens[:, 0]], 1)
        values = _with_tool(critic[asks[:, None], prefixes])
        records = recorded = None
        if kind is not None:
            records, recorded = _records(kind, written, torch.log_softmax(logits, -1)[asks], random)
        lags = torch.full(logged.shape, lag)
        batch = _batch(rewards, logged, asks, prox_logprobs=prox, policy_lags=lags, records=records)
        detached = None if recorded is None else recorded.detach()
        scored = batch.with_logprobs(logprobs.flatten().detach(), detached).with_values(values.flatten())
        update = method.update(scored)
        update.loss(logprobs.flatten(), recorded).backward()
        with torch.no_grad():
            logits -= learning_rate * logits.grad
            logits.grad.zero_()
        if update.value_targets is not None:
            places = (asks[:, None] * (1 + NUM_ACTIONS) + prefixes).flatten()
            targets = update.value_targets.reshape(num_traces, NUM_TOKENS + 1)[:, [0, 2]].flatten()
            counts = torch.bincount(places, minlength=critic.numel())
            errors = torch.bincount(places, targets - critic.flatten()[places], minlength=critic.numel())
            critic += CRITIC_RATE * (errors / counts.clamp(min=1)).reshape(critic.shape)
        past.append(logits.detach().clone())
    return accuracy


def _with_tool(values):
    """The numbers of each trace with a tool token, which has none, between the two actions."""
    return torch.stack([values[:, 0], torch.full_like(values[:, 0], torch.nan), values[:, 1]], 1)


def _records(kind, written, current, random):
    """Records of one kind beside each token, two of four in a head, and what the current policy says of them."""
    if kind == "draws":
        ids = torch.multinomial(written.exp().reshape(-1, NUM_ACTIONS), 4, True, generator=random)
        ids = ids.reshape(len(written), NUM_TOKENS, 4)
    else:
        ids = written.topk(2 if kind == "top_k" else NUM_ACTIONS, -1).indices
    then, now = (_with_tool(policy.gather(-1, ids)).flatten(0, 1) for policy in (written, current))
    return Records(kind=kind, behavior_logprobs=then), now


def _batch(rewards, behavior_logprobs, asks, **others):
    num = len(rewards)
    return Batch(
        trace_ids=tuple(map(str, range(num))),
        rewards=rewards,
        sequence_lengths=torch.full((num,), NUM_TOKENS + 1),
        sequence_traces=torch.arange(num),
        sequence_index=torch.zeros(num, dtype=torch.int64),
        action_mask=torch.tensor([True, False, True]).repeat(num),
        behavior_logprobs=behavior_logprobs,
        groups=asks,
        keys=tuple(map(str, asks.tolist())),
        **others,
    )
