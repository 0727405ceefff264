"""Attributes flat and nested."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.spans import flat, nested

LEAF = st.integers() | st.text() | st.booleans()
TREE = st.recursive(
    LEAF,
    lambda inner: (
        st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, min_size=1, max_size=3)
        | st.lists(
            st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, min_size=1, max_size=2),
            min_size=1,
            max_size=12,
        )
    ),
    max_leaves=20,
)


@given(TREE)
def test_what_was_taken_apart_is_put_together_again(tree: Any):
    """Any nested attributes survive being flat, lists in the order of their numbers."""
    assert nested(dict(flat({"top": tree})), "top") == tree


def test_a_leaf_in_the_way_of_a_branch_wins():
    """`a.b` cannot be a text and an object: nothing crashes, and what came first stays."""
    assert nested({"a.b": "x", "a.b.c": "y", "a.d": "z"}, "a") == {"b": "x", "d": "z"}


def test_what_is_not_there_is_nothing():
    """A prefix is a whole name."""
    assert nested({"ab.c": 1}, "a") is None
