"""Errors survive a process boundary and can be caught as what they refine."""

import inspect
import pickle

import pytest

from schemas import errors
from schemas.errors import LineError, TracemillError

CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass) if found.__module__ == errors.__name__]
STANDARD = {
    "SettingsError": ValueError,
    "UsageError": ValueError,
    "InputError": ValueError,
    "BatchError": ValueError,
    "CheckpointError": ValueError,
    "LineError": ValueError,
    "LakeError": RuntimeError,
    "LakeMissingError": FileNotFoundError,
    "LakeBusyError": TimeoutError,
    "TrainingError": ArithmeticError,
}


def made(kind: type[Exception]) -> Exception:
    """An error of that class."""
    return LineError("bad_json", "what, expected, do") if kind is LineError else kind("what, expected, do")


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_pickles(kind):
    """Class, words and reason are the same on the other side."""
    back = pickle.loads(pickle.dumps(made(kind)))  # noqa: S301 - our own bytes, made in this line
    assert type(back) is kind
    assert str(back) == "what, expected, do"
    assert getattr(back, "reason", None) == ("bad_json" if kind is LineError else None)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_is_ours_and_the_standard_one_that_it_refines(kind):
    """Who catches ValueError or our root catches it."""
    assert issubclass(kind, TracemillError)
    assert kind is TracemillError or issubclass(kind, STANDARD[kind.__name__])


def test_the_tree_in_the_docstring_names_every_class():
    """The drawing is complete."""
    assert all(kind.__name__ in errors.__doc__ for kind in CLASSES)
