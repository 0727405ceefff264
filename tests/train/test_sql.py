"""The queries of `warehouse/sql/train`: a few rows in, the expected rows out."""

import pyarrow as pa
import pytest

from schemas.tables import table
from tests.train.logged import NOW, admit, land, logged, score
from tests.warehouse.rows import update
from train.rescore import DISQUALIFYING


@pytest.fixture
def two(lake):
    """Traces a and b of one token each, a the newer."""
    land(lake, [(logged([5, 6, 7], [2], trace=name),) for name in "ab"])
    return lake


def _scorable(lake, version):
    limits = {"vocabulary_size": 64, "num_positions": 128}
    return lake.query("train/scorable", policy_version=version, disqualifying=DISQUALIFYING, **limits).to_pylist()


def test_scorable_says_what_was_scored_by_whom(two):
    """A was scored by the version that wrote it, b by the current one."""
    score(two, "a", "v1")
    score(two, "b", "v2")
    rows = [(row["trace_id"], row["is_scored"], row["is_scored_by_own"]) for row in _scorable(two, "v2")]
    assert rows == [("a", False, True), ("b", True, False)]


def test_scorable_ranks_by_time_and_by_hash(two):
    """The newest is first; the canary's order does not depend on time."""
    rows = _scorable(two, "v2")
    assert [row["newest_rank"] for row in rows] == [1, 2]
    # sha256("b") begins 3e23, sha256("a") begins ca97.
    assert {row["trace_id"]: row["canary_rank"] for row in rows} == {"b": 1, "a": 2}


def test_a_half_scored_trace_is_not_scored(lake):
    """Both sequences count."""
    land(lake, [tuple(logged([5, 6, 7 + index], [2], trace="a", index=index) for index in range(2))])
    score(lake, "a", "v2")
    assert not _scorable(lake, "v2")[0]["is_scored"]
    score(lake, "a", "v2", index=1)
    assert _scorable(lake, "v2")[0]["is_scored"]


def test_figures_are_over_tokens_and_traces(two):
    """Drifts 0.001 and 0.005: half of the traces is over 0.003, the mean is 0.003."""
    score(two, "a", "v2", drift=0.001)
    score(two, "b", "v2", drift=0.005)
    (row,) = two.query("train/rescored_figures", trust=0.003).to_pylist()
    assert (row["num_traces"], row["num_action_tokens"], row["share_over_trust"]) == (2, 2, 0.5)
    assert row["mean_bernoulli_kl"] == pytest.approx(0.003)


def _canaries(lake):
    """Mean drift and traces of v1 under itself, as the report and as the question of analysts has them."""
    reported = lake.query("report/canaries", {"drifts": lake.read("trace_drift")}, num_labels=9).to_pylist()
    asked = lake.query("questions/canary").to_pylist()
    return [(row["drift"], row["num_traces"]) for row in reported], [
        (row["mean_drift"], row["num_traces"]) for row in asked
    ]


@pytest.fixture
def known(two):
    """The same with v1 registered."""
    row = dict.fromkeys(("parent_version", "checkpoint_uri", "checkpoint_sha256", "method", "run_id"))
    row |= {"policy_version": "v1", "revision": 0, "optimizer_step": 1, "base_uri": "base", "state": "current"}
    with two.transaction() as transaction:
        transaction.append("policies", [row | {"created_at": NOW, "recorded_at": NOW}])
    return two


def test_the_canary_is_a_mean_over_traces(known):
    """One token of 0.001 and three of 0.005: 0.003 over traces, whatever their lengths; printed and reported alike."""
    score(known, "a", "v1", drift=0.001)
    score(known, "b", "v1", drift=0.005, num_tokens=3)
    (row,) = known.query("train/rescored_figures", trust=0.003).to_pylist()
    assert (row["mean_bernoulli_kl"], row["mean_abs_log_ratio"]) == (pytest.approx(0.003), pytest.approx(0.003))
    for canaries in _canaries(known):
        assert canaries == [(pytest.approx(0.003), 2)]


def test_a_half_scored_trace_is_no_canary(known):
    """Of the two sequences of c one was scored, so its drift of 9 is not that of the trace."""
    land(known, [tuple(logged([5, 6, 7 + index], [2], trace="c", index=index) for index in range(2))])
    score(known, "a", "v1", drift=0.001)
    score(known, "c", "v1", drift=9.0)
    for canaries in _canaries(known):
        assert canaries == [(0.001, 1)]


def test_scorable_puts_last_what_the_model_cannot_read(two):
    """Id 64 of 64 ids, and 129 tokens where 128 fit; a trace at both bounds fits."""
    bounds = [logged([63] * 128, [2], trace="c")]
    unfit = [logged([5, 64, 7], [2], trace="d"), logged([5] * 129, [2], trace="e")]
    land(two, [(sequence,) for sequence in (*bounds, *unfit)])
    rows = {row["trace_id"]: row for row in _scorable(two, "v2")}
    assert {name: row["misfit"] for name, row in rows.items()} == {
        **dict.fromkeys("abc"),
        "d": "foreign",
        "e": "long",
    }
    assert {rows[name]["canary_rank"] for name in "de"} == {4, 5}


def test_without_limits_every_trace_fits(two):
    """A model whose config states no bound is asked for nothing."""
    limits = dict.fromkeys(("vocabulary_size", "num_positions"))
    rows = two.query("train/scorable", policy_version="v2", disqualifying=DISQUALIFYING, **limits)
    assert rows["misfit"].to_pylist() == [None, None]


def test_scores_that_are_there_are_left_out(two):
    """Of two scores handed over, the one that the lake holds is not given back."""
    score(two, "a", "v2")
    held = two.read("rescored").drop_columns(["schema_version"])
    other = held.set_column(held.column_names.index("trace_id"), "trace_id", pa.array(["b"]))
    incoming = pa.concat_tables([held, other])
    assert two.query("train/not_yet_rescored", {"incoming": incoming})["trace_id"].to_pylist() == ["b"]


def test_updates_that_are_there_are_left_out(lake):
    """A step of a run is held once for each sequence."""
    keys = {"run_id": "r", "trace_id": "a", "sequence_index": 0, "trace_revision": 0, "method": "m", "policy_lag": 0}
    figures = dict.fromkeys(
        ("reward", "advantage", "drift", "mean_ratio", "max_ratio", "masked_share", "positive_mass", "negative_mass"),
        0.0,
    )
    rows = [{**keys, **figures, "in_trust": True, "replayed_at": NOW, "step": step} for step in range(2)]
    with lake.transaction() as transaction:
        transaction.append("replays", rows[:1])
    columns = [field for field in table("replays").schema if field.name != "schema_version"]
    incoming = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    assert lake.query("train/not_yet_replayed", {"incoming": incoming})["step"].to_pylist() == [1]


def test_figures_of_updates_that_are_there_are_left_out(lake):
    """A killed run makes an update again, and the lake holds its first figures, once."""
    rows = [update(step, run_id=run_id) for run_id in ("r", "s") for step in range(2)]
    with lake.transaction() as transaction:
        transaction.append("updates", rows[:3])
    columns = [field for field in table("updates").schema if field.name != "schema_version"]
    again = [update(0, run_id="r", tokens_per_second=1.0), *rows[1:]]
    incoming = pa.Table.from_pylist(again, schema=pa.schema(columns))
    found = lake.query("train/not_yet_updated", {"incoming": incoming})
    assert [(row["run_id"], row["step"]) for row in found.to_pylist()] == [("s", 1)]
    with lake.transaction() as transaction:
        transaction.append("updates", found)
    assert lake.query("train/not_yet_updated", {"incoming": incoming}).num_rows == 0


def test_only_what_this_run_admitted_is_admitted(two):
    """Another run's verdicts do not count."""
    admit(two, {"b": 1.0, "a": 0.0}, run_id="r")
    admit(two, {"a": 0.5}, run_id="other")
    rows = two.query("train/admitted", run_id="r").to_pylist()
    assert [(row["trace_id"], row["trace_revision"], row["reward"]) for row in rows] == [("a", 0, 0.0), ("b", 0, 1.0)]
