"""Micro-batches and ranks: any way to share a batch out gives the gradient of one process, for every method that splits."""

import itertools
import random

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.parallel import DistributedDataParallel

from tests.train.strategies import EVERY_METHOD, recorded
from tests.train.test_invariants import METHODS, batch_of

SPLITTING = [method for method in METHODS if method.splits]
NUM_TRACES, NUM_FEATURES, NUM_RANKS = 7, 5, 2

EXACT = 1e-12
"""Sums of a few dozen float64 numbers in another order."""


class Linear(torch.nn.Module):
    """A policy whose logprobs are linear in its parameters: what a gradient needs of one, and no more."""

    def __init__(self):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.zeros(NUM_FEATURES, dtype=torch.float64))

    def forward(self, features):
        """Logprobs of features [..., F]."""
        return features @ self.theta


def shared_rows():
    """Seven traces, the first in two sequences, with tool tokens and records; the same in every process."""
    dice = random.Random(11)  # noqa: S311 - numbers for a test
    rows = []
    for place in [0, *range(NUM_TRACES)]:
        mask = [True, *(dice.random() < 0.7 for _ in range(dice.randint(0, 5)))]
        then = [-dice.expovariate(0.5) - 0.01 for _ in mask]
        now, prox = ([min(-1e-3, value + dice.gauss(0.0, 0.15)) for value in then] for _ in range(2))
        rows.append(
            {"trace_id": str(place), "reward": (place * 3 % 4) / 4, "action_mask": mask}
            | {"behavior_logprobs": then, "logprobs": now, "prox_logprobs": prox}
            | {"values": [dice.random() for _ in mask], "policy_lag": place, "group": place % 2, "key": "agent"}
            | {"recorded": recorded(then, now, seed=len(rows))}
        )
    return rows


def features(num_tokens, num_records):
    """Features [N, F] of the tokens and [N, K, F] of their records."""
    generator = torch.Generator().manual_seed(5)
    shapes = (num_tokens, NUM_FEATURES), (num_tokens, num_records, NUM_FEATURES)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def loss_of_part(method, batch, traces, policy):
    """The loss that a process adds for some traces of a batch that was fixed before it was shared out."""
    part, tokens = batch.select(traces), batch.token_index(traces)
    update = method.update(part)
    auxiliary = update.auxiliary_coefficients
    of_tokens, of_records = features(len(batch.action_mask), 0 if auxiliary is None else auxiliary.shape[1])
    # One call of the policy, as a trainer makes it: tokens and records side by side.
    logprobs = policy(torch.cat([of_tokens[tokens][:, None], of_records[tokens]], 1))
    return update.loss(logprobs[:, 0], None if auxiliary is None else logprobs[:, 1:])


def gradient_of(method, batch, parts):
    """The gradient of one process that adds up these micro-batches."""
    policy = Linear()
    for traces in parts:
        loss_of_part(method, batch, traces, policy).backward()
    return policy.theta.grad


def micro_batches(traces):
    """Traces in pieces of one, two, one..."""
    parts, rest = [], list(traces)
    while rest:
        size = 1 + len(parts) % 2
        parts, rest = [*parts, rest[:size]], rest[size:]
    return parts


def run_rank(rank, folder):
    """One of two processes: every method by a sum over ranks, and by DDP, which averages."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=NUM_RANKS
    )
    rows, found = shared_rows(), []
    for method in SPLITTING:
        batch = batch_of(method, rows)
        parts = micro_batches(range(rank, NUM_TRACES, NUM_RANKS))
        summed = gradient_of(method, batch, parts)
        torch.distributed.all_reduce(summed)

        averaged = DistributedDataParallel(Linear())
        with averaged.no_sync():
            for traces in parts[:-1]:
                (NUM_RANKS * loss_of_part(method, batch, traces, averaged)).backward()
        (NUM_RANKS * loss_of_part(method, batch, parts[-1], averaged)).backward()
        found.append((summed, averaged.module.theta.grad))
    torch.save(found, f"{folder}/rank{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_give_the_gradient_of_one_process(tmp_path):
    """Over gloo: coefficients of a part by each rank, gradients summed, or averaged by DDP and times the ranks."""
    torch.multiprocessing.spawn(run_rank, args=(str(tmp_path),), nprocs=NUM_RANKS)
    rows = shared_rows()
    for rank in range(NUM_RANKS):
        for method, gradients in zip(SPLITTING, torch.load(tmp_path / f"rank{rank}.pt"), strict=True):
            expected = gradient_of(method, batch_of(method, rows), [range(NUM_TRACES)])
            assert bool(expected.any()), method
            for gradient in gradients:
                assert gradient.tolist() == pytest.approx(expected.tolist(), abs=EXACT), method


@pytest.mark.parametrize("method", SPLITTING, ids=lambda method: f"{method!r:.90}")
@EVERY_METHOD
@given(st.permutations(range(NUM_TRACES)), st.sets(st.integers(1, NUM_TRACES - 1)))
def test_any_micro_batches_give_the_gradient_of_the_whole(method, order, cuts):
    """Traces in any order, cut anywhere, added up without a normaliser of their own."""
    batch = batch_of(method, shared_rows())
    ends = [0, *sorted(cuts), NUM_TRACES]
    parts = [order[start:end] for start, end in itertools.pairwise(ends)]
    expected = gradient_of(method, batch, [range(NUM_TRACES)])
    assert gradient_of(method, batch, parts).tolist() == pytest.approx(expected.tolist(), abs=EXACT)


def test_a_part_that_forgets_the_whole_has_another_gradient():
    """A rank that packs its own rows takes its own B and mean reward: what the tests above would catch."""
    method = SPLITTING[0]
    rows = shared_rows()
    mine = {str(trace) for trace in range(0, NUM_TRACES, 2)}
    own = method.update(batch_of(method, [row for row in rows if row["trace_id"] in mine]))
    whole = batch_of(method, rows)
    part = method.update(whole.select(range(0, NUM_TRACES, 2)))
    assert not torch.allclose(own.coefficients, part.coefficients)
