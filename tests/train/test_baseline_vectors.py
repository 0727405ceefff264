"""The shared vectors of the token rules, the rules for whole traces, and the baselines made of rewards."""

import math

import pytest
import torch

from tests.train.shared_vectors import DTYPES, assert_close, batches, cases, edge_cases, flat, read
from train.batch import Batch
from train.methods import GRPO, RAE, Reinforce, gates, proximal
from train.methods.correction_catalog import correction_by_name
from train.methods.proximal import M2PO

AGGREGATIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "trace_mean",
    "seq-mean-token-sum": "trace_sum",
}
LITERAL_DIFFERS = {"ppo", "dual_ppo", "grpo"}
"""Losses with a clip in them: their scalar is another, their gradient is the same."""


def batch_of(rows, dtype):
    """The batch of rows of the vectors."""
    return Batch.from_rows(rows, dtype=dtype)


def rule(params):
    """A token rule under our names."""
    name, options = params["rule"], {key: value for key, value in params.items() if key not in ("rule", "advantages")}
    options.pop("aggregation", None)
    renamed = {"eps_low": "low", "eps_high": "high", "tau": "bound", "trunc": "truncate"}
    options = {renamed.get(key, key): value for key, value in options.items()}
    if name == "is":
        assert options.pop("cap") == 20.0
    return correction_by_name({"name": {"dual_ppo": "ppo"}.get(name, name), **options})


def compare(update, expect, dtype, what, literal_differs=False):
    """Coefficients, loss, trust, advantages and dropped share against an expectation."""
    assert_close(update.coefficients.tolist(), flat(expect.get("c") or expect["coefficients"]), dtype, what)
    if not literal_differs:
        assert_close([update.loss(update.batch.logprobs).item()], [expect["loss"]], dtype, what)
    assert update.in_trust.tolist() == [bool(admitted) for admitted in expect["admitted"]], what
    if "dropped_token_share" in expect.get("stats", {}):
        ours = [update.stats["dropped_token_share"], update.stats["in_trust_share"]]
        assert_close(ours, [expect["stats"][name] for name in ("dropped_token_share", "admitted_share")], dtype, what)


RULES = [name for name in read("token_rules")["settings"] if name != "band"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("setting", RULES)
def test_a_token_rule_equals_its_vectors(setting, dtype):
    """60 cases each, around the batch mean, over the action tokens of the batch; SAO's band is tested with SAO."""
    params = read("token_rules")["settings"][setting]
    method, seen = Reinforce(correction=rule(params)), 0
    for name, rows, expect in cases("token_rules", setting, dtype):
        compare(method.update(batch_of(rows, dtype)), expect, dtype, name, params["rule"] in LITERAL_DIFFERS)
        seen += 1
    assert seen == 60 or dtype == torch.float32


@pytest.mark.parametrize("setting", ["ppo", "dual_ppo"])
def test_the_gradient_of_ppos_literal_loss_is_the_coefficients(setting):
    """max(-A rho, -A clip(rho)), dual-clipped where stated: its scalar is the vectors', its gradient ours."""
    params = read("token_rules")["settings"][setting]
    method = Reinforce(correction=rule(params))
    for name, rows, expect in cases("token_rules", setting, torch.float64):
        batch = batch_of(rows, torch.float64)
        update = method.update(batch)
        logprobs = batch.logprobs.clone().requires_grad_()
        ratio, advantage = torch.exp(logprobs - batch.behavior_logprobs), update.advantages
        clipped = ratio.clamp(1 - params["eps_low"], 1 + params["eps_high"])
        losses = torch.maximum(-advantage * ratio, -advantage * clipped)
        if "dual" in params:
            losses = torch.where(advantage < 0, torch.minimum(losses, -advantage * params["dual"]), losses)
        loss = losses[batch.action_mask].sum() / batch.action_mask.sum()
        loss.backward()
        assert_close([loss.item()], [expect["loss"]], torch.float64, name)
        assert_close((-logprobs.grad).tolist(), update.coefficients.tolist(), torch.float64, name)


BASELINES = read("baselines")["settings"]


def baseline(params):
    """GRPO, Reinforce or RAE under our names."""
    options = dict(params)
    name, aggregation = options.pop("method"), AGGREGATIONS[options.pop("aggregation", "token-mean")]
    if name == "grpo":
        clip = {"name": "ppo", "low": options.pop("eps_low", 0.2), "high": options.pop("eps_high", 0.2)}
        assert options.pop("ddof", 1) == 1
        renamed = {"scale": "scaled", "eps": "epsilon"}
        options = {renamed.get(key, key): value for key, value in options.items()}
        return GRPO(correction=clip, aggregation=aggregation, **({"singleton": "zero"} | options))
    if name == "rae":
        correction = options.pop("rule", "reinforce")
        options["correction"] = (
            "none" if correction == "reinforce" else {"name": correction, "high": options.pop("high")}
        )
        return RAE(aggregation=aggregation, **options)
    return Reinforce(aggregation=aggregation, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("setting", BASELINES)
def test_a_baseline_equals_its_vectors(setting, dtype):
    """Coefficients, advantages, trust, and the running means in which RAE ends."""
    params, seen = BASELINES[setting], 0
    method = baseline(params)
    for name, rows, expect in cases("baselines", setting, dtype):
        update = method.update(batch_of(rows, dtype))
        compare(update, expect, dtype, name, params["method"] in LITERAL_DIFFERS)
        first = [trace.advantages for trace in update.per_trace()]
        acted = [row["action_mask"].index(1) for row in rows]
        assert_close([own[at] for own, at in zip(first, acted, strict=True)], expect["A"], dtype, name)
        assert dict(update.state) == pytest.approx(expect.get("state", {}), abs=1e-12)
        seen += 1
    assert seen >= 40


EDGES = edge_cases("grpo") | edge_cases("rae")


@pytest.mark.parametrize("name", EDGES)
def test_a_baseline_answers_its_edge_cases(name):
    """Groups of one, of equal rewards, of nearly equal ones; the order and the keys of running means."""
    case = EDGES[name]
    update = baseline({"method": case["method"], **case["params"]}).update(batch_of(case["rows"], torch.float64))
    compare(update, case["expect"], torch.float64, name, case["method"] == "grpo")
    assert_close(update.advantages.tolist(), flat(case["expect"]["advantages"]), torch.float64, name)
    assert dict(update.state) == pytest.approx(case["expect"].get("state", {}), abs=1e-12)


def test_rules_for_whole_traces_equal_their_vectors():
    """Which traces each keeps, the divergences that decide, and the update when two agree on a trace."""
    settings = read("stale_corrections")["settings"]["sequence_rules"]
    k3 = {"max_divergence": settings["trm_k3"]["max_kl"], "mean_divergence": settings["trm_k3"]["mean_kl"]}
    bernoulli = {"max_divergence": settings["trm_bernoulli"]["max_kl"], "mean_divergence": math.inf}
    rules = {
        "seq_mis": gates.SequenceMIS(high=settings["seq_mis"]["high"]),
        "trm_k3": gates.TrustRegion(divergence="k3", **k3),
        "trm_bernoulli": gates.TrustRegion(divergence="bernoulli", **bernoulli),
        "opsm": gates.OPSM(bound=settings["opsm"]["delta"]),
    }
    num_cases = 0
    for name, rows, expect in cases("stale_corrections", "sequence_rules", torch.float64):
        batch = batch_of(rows, torch.float64)
        updates = {key: Reinforce(correction=own, aggregation="trace_mean").update(batch) for key, own in rules.items()}
        for key, update in updates.items():
            assert update.in_trust.tolist() == [bool(kept) for kept in expect[key]], f"{name} {key}"
        both = updates["seq_mis"].in_trust & updates["trm_k3"].in_trust
        assert both.tolist() == [bool(kept) for kept in expect["admitted"]], name
        coefficients = torch.where(both[batch.trace_index], updates["seq_mis"].coefficients, 0.0)
        assert_close(coefficients.tolist(), flat(expect["c"]), torch.float64, name)
        ratios = torch.exp(gates.sequence_log_ratios(batch, "test"))
        assert_close(ratios.tolist(), expect["seq_ratio"], torch.float64, name)
        assert_close([gates.effective_sample_size(ratios)], [expect["vcpo"]["ess"]], torch.float64, name)
        num_cases += 1
    assert num_cases == 80


def test_every_batch_of_the_vectors_is_read():
    """A slip in reading them would pass in silence."""
    assert len(batches()) == 240


def edge_batch(rows):
    """Rows of the vectors with a lag in place of a version, the current one being 10."""

    def lag(version):
        return [10 - own for own in version] if isinstance(version, list) else 10 - version

    return [row | ({"policy_lag": lag(row["version"])} if "version" in row else {}) for row in rows]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("setting", "name"), [("decoupled", "decoupled_ppo"), ("a3po", "a3po")])
def test_a_rule_around_a_policy_in_the_middle_equals_its_vectors(setting, name, dtype):
    """80 cases each, by prox_logprobs and by version."""
    seen = 0
    for case, rows, expect in cases("stale_corrections", setting, dtype):
        update = Reinforce(correction=name).update(batch_of(edge_batch(rows), dtype))
        compare(update, expect, dtype, case, literal_differs=True)
        seen += 1
    assert seen == 80


PROXIMAL_EDGES = edge_cases("decoupled_ppo") | edge_cases("a3po")


@pytest.mark.parametrize("name", PROXIMAL_EDGES)
def test_a_rule_around_a_policy_in_the_middle_answers_its_edge_cases(name):
    """A weight beyond the cap masked or cut, a version for each token."""
    case = PROXIMAL_EDGES[name]
    renamed = {"behave_cap": "cap", "cap_mode": "beyond_cap"}
    options = {renamed[key]: value for key, value in case["params"].items()}
    method = Reinforce(correction={"name": case["method"], **options})
    update = method.update(batch_of(edge_batch(case["rows"]), torch.float64))
    assert_close(update.coefficients.tolist(), flat(case["expect"]["coefficients"]), torch.float64, name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_m2po_equals_its_vectors(dtype):
    """The authors' clip in 80 cases, the bound that would spend the budget to the last, AReaL's mask."""
    settings, seen = read("stale_corrections")["settings"]["m2po"], 0
    clip = M2PO(budget=settings["budget"], low=settings["mini_low"], high=settings["mini_high"])
    for name, rows, expect in cases("stale_corrections", "m2po", dtype):
        batch = batch_of(rows, dtype)
        update = Reinforce(correction=clip).update(batch)
        compare(update, expect, dtype, name, literal_differs=True)
        harmful = update.log_ratios[batch.action_mask & (update.advantages * update.log_ratios > 0)].double() ** 2
        bound = math.sqrt(proximal.exact_bound(harmful, settings["budget"]))
        assert_close([bound if math.isfinite(bound) else 0.0], [finite(expect["exact"])], dtype, name)
        mask = batch.action_mask
        squares = (batch.prox_logprobs - batch.behavior_logprobs)[mask].double() ** 2
        kept = torch.zeros_like(mask).masked_scatter(mask, proximal.kept_within_budget(squares, settings["budget"]))
        assert kept.tolist() == [bool(entry) for entry in flat(expect["keep_mask"])], name
        seen += 1
    assert seen == (80 if dtype == torch.float64 else 17)


def finite(value):
    """0 for infinity, which no tolerance can be taken from."""
    return value if math.isfinite(value) else 0.0
