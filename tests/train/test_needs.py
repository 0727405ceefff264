"""A method that the trainer cannot run is refused before a night begins."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from schemas.errors import SettingsError
from train.methods.catalog import METHODS
from train.needs import UNMET
from train.replay import TrainSettings, check_method


def test_every_method_says_what_it_needs():
    """Neither table knows a method that the other does not."""
    assert set(UNMET) == set(METHODS)


def test_an_unknown_method_is_refused_when_the_settings_are_loaded():
    """The message names it and those that can be run."""
    with pytest.raises(
        ValidationError,
        match="'flash_reinforcee' is unknown; expected one of bpco, bpo, flash_reinforce, grpo, klpo, reinf",
    ):
        TrainSettings(method="flash_reinforcee")


@pytest.mark.parametrize(
    ("method", "missing"),
    [
        ("rae", "a key for each trace, and the traces in order of completion"),
    ],
)
def test_a_method_whose_needs_are_not_met_is_refused_when_the_settings_are_loaded(method, missing):
    """The message names what is missing and what can be run."""
    with pytest.raises(
        ValidationError,
        match=f"'{method}' needs {missing}, .*expected one of bpco, bpo, flash_reinforce, grpo, klpo, reinfo",
    ):
        TrainSettings(method=method)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("flash_reinforce", {}),
        ("flash_reinforce", {"trust": 0.003, "overflow": "clamp"}),
        ("reinforce", {}),
        ("grpo", {}),
        ("sao", {"band": [0.2, 4.0]}),
        ("bpco", {"reward_range": [-1.0, 1.0]}),
        ("bpco", {"reward_range": [1.0, 5.0]}),
        ("bpo", {"form": "exact_residual", "baseline": "critic"}),
        *(("reinforce", {"correction": name}) for name in ("tis", "ppo", "seq_mis", "m2po", "opsm")),
    ],
)
def test_what_can_be_run_passes(method, options):
    """With its defaults and with options that every batch can meet."""
    check_method(TrainSettings(method=method, options=options))


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("flash_reinforce", {"trsut": 1.0}, "unknown option 'trsut'"),
        ("flash_reinforce", {"trust": -1.0}, "trust=-1.0"),
        ("flash_reinforce", {"negative_token_fraction": 0.9}, "no entropies"),
        ("reinforce", {"correction": "decoupled_ppo"}, "prox_logprobs"),
        ("reinforce", {"correction": "a3po"}, "policy_lag"),
        ("reinforce", {"correction": 3}, "correction 3: expected one of"),
        ("reinforce", {"correction": "no"}, "correction 'no': expected one of"),
    ],
)
def test_options_that_cannot_be_run_are_refused(method, options, said):
    """Unknown, out of range, or asking for what no batch of the trainer has."""
    with pytest.raises(SettingsError, match=said):
        check_method(TrainSettings(method=method, options=options))


def test_a_name_that_came_past_the_settings_is_refused():
    """A copy of settings is not validated again."""
    with pytest.raises(SettingsError, match="'rae' needs"):
        check_method(TrainSettings().model_copy(update={"method": "rae"}))


def test_settings_are_checked_without_torch():
    """Commands that only read start fast."""
    code = "import sys; from train.replay import TrainSettings; TrainSettings(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
