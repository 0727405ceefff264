"""Methods by name, their options, and where their defaults come from."""

import ast
import inspect
import re
import sys
from dataclasses import FrozenInstanceError, fields

import pytest

import train.batch
import train.records
from schemas.errors import SettingsError
from train.methods import METHODS, by_name, centering, corrections, gates, notes, proximal, terms, values
from train.methods.correction_catalog import CORRECTIONS

SOURCE = re.compile(
    r"(Sec\.|Table|Eq\.|Appendix) ?\w*|arXiv:\d{4}\.\d+|\w+\.py\b|measured \d{4}-\d\d-\d\d|[Cc]onvention,\s+untested|overflows"
)
"""A paper with its place, a file of public code, a measurement with its date, or the words that admit there is none."""


def documented(body):
    """Names assigned in a class or module body, each with the string under it."""
    for statement, following in zip(body, [*body[1:], None], strict=True):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        if isinstance(target, ast.Name):
            text = following.value if isinstance(following, ast.Expr) else None
            yield target.id, text.value if isinstance(text, ast.Constant) else ""


@pytest.mark.parametrize("method", [*METHODS.values(), *CORRECTIONS.values()], ids=[*METHODS, *CORRECTIONS])
def test_every_default_names_its_source(method):
    """The string under each option says where its value comes from."""
    tree = ast.parse(inspect.getsource(sys.modules[method.__module__]))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == method.__name__)
    texts = dict(documented(body))
    for option in fields(method):
        assert SOURCE.search(texts[option.name]), f"{method.__name__}.{option.name}: {texts[option.name]!r}"


@pytest.mark.parametrize(
    "module",
    [
        train.batch,
        train.records,
        centering,
        terms,
        values,
        notes,
        corrections,
        gates,
        proximal,
        *(sys.modules[m.__module__] for m in METHODS.values()),
    ],
    ids=lambda m: m.__name__,
)
def test_every_constant_names_its_source(module):
    """Clamps and floors are numbers with a father."""
    for name, text in documented(ast.parse(inspect.getsource(module)).body):
        if name.isupper() and isinstance(getattr(module, name), int | float):
            assert SOURCE.search(text), f"{module.__name__}.{name}: {text!r}"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_made_by_its_name(name):
    """With its defaults, frozen, and the same again."""
    method = by_name(name)
    assert method.name == name
    assert method == METHODS[name]()
    with pytest.raises(FrozenInstanceError):
        setattr(method, fields(method)[0].name, None)


def test_options_reach_the_method():
    """As a settings file states them."""
    assert by_name("flash_reinforce", {"trust": 0.01}) == METHODS["flash_reinforce"](trust=0.01)
    assert by_name("sao", {"band": [0.2, 4.0]}).band == (0.2, 4.0)


def test_an_unknown_method_is_refused_with_those_there_are():
    """A misspelt name is a wrong setting."""
    with pytest.raises(SettingsError, match=r"expected one of .*flash_reinforce"):
        by_name("flash")


def test_an_unknown_option_is_refused_with_those_there_are():
    """Also one that another method would know."""
    with pytest.raises(SettingsError, match="unknown option 'delta'; expected among trust, overflow"):
        by_name("flash_reinforce", {"delta": 0.1})
