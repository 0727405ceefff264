"""Policy versions: registered once, one of them current, their weights fixed for ever."""

import shutil
from datetime import timedelta

import pytest
from pydantic import ValidationError

from schemas.errors import CheckpointError, SettingsError, UsageError
from tests.train.logged import NOW, model_settings, save_random_adapter
from train.registry import (
    ModelSettings,
    PolicySettings,
    current_policy,
    hold,
    name_of_new,
    policies,
    policy,
    register,
    weights_of,
    weights_sha256,
)


@pytest.fixture
def model(tiny_folder, tmp_path):
    """A base and two adapters, the second current."""
    adapters = [save_random_adapter(tmp_path / f"a{seed}", tiny_folder, seed=seed) for seed in (1, 2)]
    return model_settings(tiny_folder, adapters)


def test_versions_of_the_settings_are_registered_once(lake, model):
    """A second call with the same settings adds nothing."""
    assert [row.policy_version for row in register(lake, model, now=NOW)] == ["v0", "v1", "v2"]
    assert register(lake, model, now=NOW) == []
    assert lake.read("policies").num_rows == 3


def test_a_registered_version_says_where_it_stands(lake, model):
    """Step, parent, folder, digest, state and time are those of the settings."""
    register(lake, model, now=NOW)
    row = policy(lake, "v2")
    assert (row.optimizer_step, row.parent_version, row.state, row.created_at) == (2, "v1", "current", NOW)
    assert row.checkpoint_sha256 == weights_sha256(model.policies[2].adapter)
    assert policy(lake, "v0").weights.adapter is None


def test_the_current_policy_is_the_one_that_the_settings_call_so(lake, model):
    """Training goes on from there."""
    register(lake, model, now=NOW)
    assert current_policy(lake).policy_version == "v2"


def test_a_new_current_version_retires_the_one_before(lake, model):
    """A version that somebody deployed by hand takes over; the old one stays known."""
    first = model.policies[1].model_copy(update={"state": "current"})
    register(lake, model.model_copy(update={"policies": (model.policies[0], first)}), now=NOW)
    register(lake, model, now=NOW + timedelta(days=1))
    states = {row.policy_version: row.state for row in policies(lake)}
    assert states == {"v0": "retired", "v1": "retired", "v2": "current"}
    assert (policy(lake, "v1").revision, policy(lake, "v1").created_at) == (1, NOW)


def test_without_a_current_version_the_message_says_how_to_name_one(lake, model):
    """Training has nowhere to go on from."""
    register(lake, model.model_copy(update={"policies": model.policies[:2]}), now=NOW)
    with pytest.raises(SettingsError, match='current policies: none; expected exactly one; set state = "current"'):
        current_policy(lake)


def test_other_weights_under_a_known_name_are_refused(lake, model, tiny_folder):
    """A version keeps its weights for ever, or its logs would mean something else."""
    register(lake, model, now=NOW)
    save_random_adapter(model.policies[1].adapter, tiny_folder, seed=9)
    with pytest.raises(SettingsError, match="policy v1: checkpoint_sha256"):
        register(lake, model, now=NOW)


def test_another_step_under_a_known_name_is_refused(lake, model):
    """Lags would shift without a word."""
    register(lake, model, now=NOW)
    moved = model.policies[1].model_copy(update={"optimizer_step": 7})
    with pytest.raises(SettingsError, match="optimizer_step 7 in the settings, 1 in the lake"):
        register(lake, model.model_copy(update={"policies": (moved,)}), now=NOW)


def test_a_version_without_its_folder_is_refused(lake, model):
    """A policy that cannot score is no use."""
    shutil.rmtree(model.policies[1].adapter)
    with pytest.raises(CheckpointError, match="policy v1: no folder"):
        register(lake, model, now=NOW)


def test_a_parent_that_nobody_knows_is_refused(lake, model):
    """Lineage has no gaps."""
    orphan = model.policies[2].model_copy(update={"parent": "v9"})
    with pytest.raises(SettingsError, match="parent 'v9' is not registered"):
        register(lake, model.model_copy(update={"policies": (orphan,)}), now=NOW)


def test_an_unknown_version_is_named_with_those_there_are(lake, model):
    """The message lists what could have been meant."""
    register(lake, model, now=NOW)
    with pytest.raises(SettingsError, match="'v7' is not registered; expected one of: v0, v1, v2"):
        policy(lake, "v7")


def test_weights_are_looked_for_where_the_settings_say(lake, model, tmp_path):
    """A folder that moved is found through the settings; other weights there are refused."""
    register(lake, model, now=NOW)
    moved = tmp_path / "moved"
    model.policies[1].adapter.rename(moved)
    settings = model.model_copy(update={"policies": (model.policies[1].model_copy(update={"adapter": moved}),)})
    assert weights_of(settings, policy(lake, "v1"), policies(lake)).adapter == moved
    shutil.copytree(model.policies[2].adapter, moved, dirs_exist_ok=True)
    with pytest.raises(CheckpointError, match="not those that were registered"):
        weights_of(settings, policy(lake, "v1"), policies(lake))


def test_a_new_version_is_named_by_its_step(lake, model):
    """The pattern holds the step, and a name that is taken gets a number behind it."""
    register(lake, model, now=NOW)
    assert name_of_new(lake, model, 5) == "v5"
    assert name_of_new(lake, model, 2) == "v2.2"


@pytest.mark.parametrize("pattern", ["new", "v{number}", "{step}-{step}"])
def test_a_pattern_without_the_step_is_refused(pattern, tmp_path):
    """Every version would have the same name."""
    with pytest.raises(ValidationError, match="step"):
        ModelSettings(base=tmp_path, version_name=pattern)


def test_two_current_versions_are_refused(tmp_path):
    """Traffic has one current policy."""
    two = tuple(PolicySettings(version=name, optimizer_step=0, state="current") for name in "ab")
    with pytest.raises(ValidationError, match="expected one"):
        ModelSettings(base=tmp_path, policies=two)


def test_a_candidate_is_held_once_and_a_serving_version_never(lake, model):
    """Holding says: trained, not to be promoted."""
    register(lake, model, now=NOW)
    row = policy(lake, "v2").as_row() | {"policy_version": "v3", "optimizer_step": 3, "state": "candidate"}
    with lake.transaction() as transaction:
        transaction.append("policies", [row])
    assert [hold(lake, "v3", now=NOW).revision for _ in range(2)] == [row["revision"] + 1] * 2
    assert policy(lake, "v3").state == "held"
    with pytest.raises(UsageError, match="v2 is current"):
        hold(lake, "v2", now=NOW)


def _calling(model, current, *more):
    """The settings with another version called current, and more versions."""
    listed = [
        one.model_copy(update={"state": "current" if one.version == current else "retired"}) for one in model.policies
    ]
    return model.model_copy(update={"policies": (*listed, *more)})


def _train_candidate(lake, model, tiny_folder, tmp_path, *, step=3):
    """A version that a run made from the settings' last one, and its stanza for the settings."""
    folder = save_random_adapter(tmp_path / f"trained{step}", tiny_folder, seed=step)
    row = policy(lake, "v2").as_row() | {
        "policy_version": f"v{step}",
        "optimizer_step": step,
        "revision": 0,
        "parent_version": f"v{step - 1}",
        "checkpoint_uri": str(folder),
        "checkpoint_sha256": weights_sha256(folder),
        "method": "flash_reinforce",
        "run_id": "r",
        "state": "candidate",
    }
    with lake.transaction() as transaction:
        transaction.append("policies", [row])
    return PolicySettings(
        version=f"v{step}", optimizer_step=step, adapter=folder, parent=f"v{step - 1}", state="current"
    )


def test_the_settings_move_the_pointer_between_known_versions(lake, model):
    """The other version becomes current and the one before retired, once, in one transaction."""
    register(lake, model, now=NOW)
    before = lake.snapshot()
    for _ in range(2):
        assert register(lake, _calling(model, "v1"), now=NOW + timedelta(days=1)) == []
    assert {row.policy_version: (row.state, row.revision) for row in policies(lake)} == {
        "v0": ("retired", 0),
        "v1": ("current", 1),
        "v2": ("retired", 1),
    }
    assert lake.snapshot() == before + 1


def test_a_trained_candidate_is_promoted_by_the_settings(lake, model, tiny_folder, tmp_path):
    """It keeps the run and the method that made it."""
    register(lake, model, now=NOW)
    trained = _train_candidate(lake, model, tiny_folder, tmp_path)
    assert register(lake, _calling(model, "v3", trained), now=NOW) == []
    row = current_policy(lake)
    assert (row.policy_version, row.run_id, row.method) == ("v3", "r", "flash_reinforce")
    assert policy(lake, "v2").state == "retired"


def test_a_promotion_by_the_settings_can_be_followed_and_taken_back(lake, model, tiny_folder, tmp_path):
    """From one trained version to the next, and back to one of the settings'."""
    register(lake, model, now=NOW)
    third = _train_candidate(lake, model, tiny_folder, tmp_path)
    register(lake, _calling(model, "v3", third), now=NOW)
    fourth = _train_candidate(lake, model, tiny_folder, tmp_path, step=4)
    older = third.model_copy(update={"state": "retired"})
    register(lake, _calling(model, "v4", older, fourth), now=NOW)
    assert current_policy(lake).policy_version == "v4"
    register(lake, _calling(model, "v2", older, fourth.model_copy(update={"state": "retired"})), now=NOW)
    assert current_policy(lake).policy_version == "v2"


def test_settings_that_were_not_told_of_a_promotion_do_not_undo_it(lake, model, tiny_folder, tmp_path):
    """A trained version became current otherwise; the settings still call the one before current."""
    register(lake, model, now=NOW)
    _train_candidate(lake, model, tiny_folder, tmp_path)
    moved = [policy(lake, "v2").as_row() | {"state": "retired", "revision": 1}]
    moved += [policy(lake, "v3").as_row() | {"state": "current", "revision": 1}]
    with lake.transaction() as transaction:
        transaction.append("policies", moved)
    register(lake, model, now=NOW)
    assert current_policy(lake).policy_version == "v3"


def test_a_candidate_that_is_only_listed_stays_one(lake, model, tiny_folder, tmp_path):
    """Listing says where it lies; state = "current" says that it serves."""
    register(lake, model, now=NOW)
    trained = _train_candidate(lake, model, tiny_folder, tmp_path).model_copy(update={"state": "retired"})
    register(lake, _calling(model, "v2", trained), now=NOW)
    assert (policy(lake, "v3").state, current_policy(lake).policy_version) == ("candidate", "v2")
