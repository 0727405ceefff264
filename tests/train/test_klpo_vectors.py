"""The shared vectors of KLPO: 48 batches under eight routes, and its edge cases."""

import pytest
import torch

from schemas.errors import BatchError, SettingsError
from tests.train.klpo_literal import literal_loss
from tests.train.shared_vectors import DTYPES, assert_close, edge_cases, flat, read
from train.batch import Batch
from train.methods import KLPO
from train.methods.update import Update

CENTERINGS = {"mc": "monte_carlo", "full": "exact", "topk": "topk", "binary": "binary"}
KINDS = {"mc": "draws", "full": "full", "topk": "top_k"}
PREFIXES = {"mc": "aux_", "full": "full_", "topk": "head_"}
VOCABULARY = 7
ROUTES = [(route, kl) for route in ("token", "sequence") for kl in CENTERINGS]

LOGITS_TOLERANCE = 1e-9
"""The gradients by the logits are written with ten digits."""


def method(params):
    """KLPO under the option names of the vectors."""
    return KLPO(beta=params["beta"], route=params["route"], centering=CENTERINGS[params["kl"]])


def ids_of(token, kl):
    """The recorded ids of a token of the vectors, the sampled one if there are none."""
    return {"mc": token["aux"], "full": list(range(VOCABULARY)), "topk": token["head"], "binary": [token["a"]]}[kl]


def scored(rows, kl):
    """Logits with a graph, the ids, and both policies' logprobs of the sampled and of the recorded tokens, in float64."""
    tokens = [token for row in rows for token in row["tokens"]]
    logits = torch.tensor([token["zp"] for token in tokens], dtype=torch.float64, requires_grad=True)
    then = torch.log_softmax(torch.tensor([token["zq"] for token in tokens], dtype=torch.float64), -1)
    now = torch.log_softmax(logits, -1)
    ids, own = torch.tensor([ids_of(token, kl) for token in tokens]), torch.tensor([[token["a"]] for token in tokens])
    return logits, ids, [policy.gather(1, of) for policy in (now, then) for of in (own, ids)]


def batch_of(rows, kl, dtype):
    """The batch of rows of the vectors, scored by the current policy."""
    _, ids, numbers = scored(rows, kl)
    p, ps, q, qs = (part.detach() for part in numbers)
    made, at = [], 0
    for row in rows:
        own = slice(at, at := at + len(row["tokens"]))
        made.append(
            {
                "reward": row["reward"],
                "action_mask": row["action_mask"],
                "logprobs": p[own, 0],
                "behavior_logprobs": q[own, 0],
            }
        )
        if kl != "binary":
            made[-1]["records"] = {
                "kind": KINDS[kl],
                "behavior_logprobs": qs[own],
                "logprobs": ps[own],
                "token_ids": ids[own],
                "sampled_ids": [token["a"] for token in row["tokens"]],
            }
    return Batch.from_rows(made, dtype=dtype)


def linear_loss(update: Update):
    """The loss with the coefficients held constant, as one float."""
    records = update.batch.records
    return update.loss(update.batch.logprobs, None if records is None else records.logprobs).item()


def by_trace(batch, values):
    """A number a token as a list of tensors, one a trace."""
    return torch.split(values, batch.sequence_lengths.tolist())


def compare(update, expect, aux, dtype, what):
    """Everything that one route is expected to give, but its scalar."""
    batch = update.batch
    if aux is not None and update.auxiliary_coefficients is not None:
        assert_close(update.auxiliary_coefficients.flatten().tolist(), flat(flat(aux)), dtype, f"{what} aux")
    stats = update.stats
    ours = {
        "mean_sequence_kl": stats["mean_trace_kl"],
        "floored_tokens": stats["num_floored_tokens"],
        "regression_loss": stats.get("regression_loss"),
    }
    for name, value in expect["stats"].items():
        assert_close([ours[name]], [value], dtype, f"{what} {name}")
    if expect.get("residual") is not None:
        traces = zip(by_trace(batch, update.advantages), by_trace(batch, batch.action_mask), strict=True)
        assert_close([float(own[acts][0]) for own, acts in traces], expect["residual"], dtype, f"{what} residual")


CASES = {route: [case for case in read("klpo")["cases"] if (case["route"], case["kl"]) == route] for route in ROUTES}
BATCHES = {batch["id"]: batch for batch in read("klpo")["batches"]}


def test_every_case_is_run():
    """48 batches under each of eight routes, none of them fragile."""
    assert {len(cases) for cases in CASES.values()} == {48}
    assert not any(case.get("fragile") for cases in CASES.values() for case in cases)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("route", ROUTES, ids="-".join)
def test_klpo_equals_its_vectors(route, dtype):
    """Coefficients of both kinds, loss, divergence and residual of each trace, and figures."""
    for case in CASES[route]:
        name, expect, own = case["batch"], case["expect"], BATCHES[case["batch"]]
        chosen = method(case | {"beta": own["beta"]})
        batch = batch_of(own["rows"], case["kl"], dtype)
        update = chosen.update(batch)
        assert_close(update.coefficients.tolist(), flat(expect["c"]), dtype, name)
        compare(update, expect, expect.get("aux_c"), dtype, name)
        kl = [float(part.sum()) for part in by_trace(batch, batch.actions.spread(chosen.centred(batch).divergences))]
        assert_close(kl, expect["sequence_kl"], dtype, name)
        if route not in (("sequence", "full"), ("sequence", "topk")):  # Their scalar has terms without a gradient.
            assert_close([linear_loss(update)], [expect["loss"]], dtype, name)


@pytest.mark.parametrize("route", ROUTES, ids="-".join)
def test_the_gradient_by_the_logits_is_that_of_the_vectors(route):
    """By autograd through the log-softmax, where the vectors state it."""
    seen = 0
    for case in CASES[route]:
        if "logits_grad" not in case["expect"]:
            continue
        own = BATCHES[case["batch"]]
        update = method(case | {"beta": own["beta"]}).update(batch_of(own["rows"], case["kl"], torch.float64))
        logits, _, (p, ps, _, _) = scored(own["rows"], case["kl"])
        update.loss(p[:, 0], ps if update.auxiliary_coefficients is not None else None).backward()
        expected = torch.tensor([part for row in case["expect"]["logits_grad"] for part in row], dtype=torch.float64)
        assert torch.allclose(-logits.grad, expected, rtol=0.0, atol=LOGITS_TOLERANCE), case["batch"]
        seen += 1
    assert seen == (48 if route[1] in ("mc", "full") else 0)


@pytest.mark.parametrize("route", ROUTES, ids="-".join)
def test_the_gradient_of_the_literal_loss_is_the_coefficients(route):
    """As the paper writes it, residuals held constant: its scalar is the vectors', its gradient by p and ps is ours."""
    for case in CASES[route]:
        rows, beta = BATCHES[case["batch"]]["rows"], BATCHES[case["batch"]]["beta"]
        update = method(case | {"beta": beta}).update(batch_of(rows, case["kl"], torch.float64))
        _, _, numbers = scored(rows, case["kl"])
        p, ps, q, qs = (part.detach() for part in numbers)
        p, ps = p[:, 0].requires_grad_(), ps.requires_grad_()
        parts = [by_trace(update.batch, part) for part in (p, q[:, 0], ps, qs, update.batch.action_mask)]
        traces = [(row["reward"], *(part[acts] for part in own)) for row, *own, acts in zip(rows, *parts, strict=True)]
        loss = literal_loss(traces, *route, beta)
        gradients = torch.autograd.grad(loss, (p, ps), allow_unused=True)
        assert_close([loss.item()], [case["expect"]["loss"]], torch.float64, case["batch"])
        assert_close((-gradients[0]).tolist(), update.coefficients.tolist(), torch.float64, case["batch"])
        if update.auxiliary_coefficients is not None:
            auxiliary = update.auxiliary_coefficients.flatten().tolist()
            assert_close((-gradients[1]).flatten().tolist(), auxiliary, torch.float64, case["batch"])


EDGES = edge_cases("klpo")
ANSWERED = [name for name, case in EDGES.items() if "expect" in case]
REFUSED = [name for name, case in EDGES.items() if "error" in case]


def edge_rows(case):
    """The rows of an edge case with its records under our names; those without any stay without."""
    kl = case["params"]["kl"]
    prefix = PREFIXES.get(kl, "none")
    made = []
    for row in case["rows"]:
        own = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        made.append(row | ({"records": own | {"kind": KINDS[kl]}} if own else {}))
    return made


def test_the_edge_cases_are_all_run():
    """20 cases, each either answered or refused."""
    assert (len(ANSWERED), len(REFUSED)) == (16, 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ANSWERED)
def test_klpo_answers_its_edge_cases(name, dtype):
    """Coefficients of both kinds, residuals, trust and figures of each named case."""
    case, expect = EDGES[name], EDGES[name]["expect"]
    update = method(case["params"]).update(Batch.from_rows(edge_rows(case), dtype=dtype))
    assert_close(update.coefficients.tolist(), flat(expect["coefficients"]), dtype, name)
    assert_close(update.advantages.tolist(), flat(expect["advantages"]), dtype, name)
    assert update.in_trust.tolist() == expect["admitted"]
    compare(update, expect, expect["aux_coefficients"], dtype, name)
    if (case["params"]["route"], case["params"]["kl"]) not in (("sequence", "full"), ("sequence", "topk")):
        assert_close([linear_loss(update)], [expect["loss"]], dtype, name)


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("klpo_seq_mc_m1", BatchError, "1 draw at each token of trace 0 .* at least 2 in the sequence route"),
        ("klpo_missing_aux", BatchError, r'no records; expected draws .* KLPO\(centering="binary"\)'),
        ("klpo_binary_certain_token", BatchError, "trace 0, token 0: logprobs of exactly 0"),
        ("klpo_beta_zero", SettingsError, r"KLPO\(beta=0.0\): expected a number of at least"),
    ],
)
def test_klpo_refuses_its_edge_cases(name, error, said):
    """With what is wrong and the way out."""
    assert name in REFUSED
    with pytest.raises(error, match=said):
        method(EDGES[name]["params"]).update(Batch.from_rows(edge_rows(EDGES[name]), dtype=torch.float64))
