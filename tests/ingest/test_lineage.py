"""Which call each call goes on from."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from ingest.branches import LoggedCall
from ingest.lineage import judged, lineage
from tests.ingest.hand_made import G1, P1
from tests.ingest.test_stitch import A, B, call

_IDS = st.lists(st.integers(0, 1), max_size=5)


@given(st.lists(st.tuples(_IDS, _IDS, st.integers(0, 3)), max_size=9))
def test_any_parent_is_the_longest_prefix_and_of_equals_the_last(drawn):
    """As a search over all pairs finds it."""
    calls = [call(str(n), prompt, ids, at) for n, (prompt, ids, at) in enumerate(drawn)]
    expected = {}
    for one in calls:
        fitting = [other for other in calls if other.token_ids and (one.prompt or b"").startswith(other.full)]
        if fitting:
            expected[one.call_id] = max(fitting, key=lambda other: (len(other.full), other.order)).call_id
    assert lineage(calls).parents == expected


@given(st.lists(st.tuples(_IDS, _IDS), max_size=9))
def test_any_calls_of_one_prompt_are_siblings(drawn):
    """Two or more, grouped by their prompt."""
    calls = [call(str(n), prompt, ids) for n, (prompt, ids) in enumerate(drawn)]
    prompts = [tuple(prompt) for prompt, _ in drawn]
    found = {_unpacked(group[0]): len(group) for group in lineage(calls).siblings}
    assert found == {prompt: prompts.count(prompt) for prompt in prompts if prompts.count(prompt) > 1}


def _unpacked(one: LoggedCall) -> tuple[int, ...]:
    prompt = one.prompt or b""
    return struct.unpack(f"<{len(prompt) // 4}i", prompt)


def test_of_choices_with_equal_tokens_the_served_one_is_gone_on_from():
    """Even if the other is the later one by its name."""
    first = call("a", P1, G1)
    second = call("z", P1, G1, choice_index=1, unserved=True)
    assert lineage([first, second, B]).parents == {"b": "a"}


def test_of_answers_that_nobody_went_on_from_the_served_one_is_used():
    """If the settings leave just one."""
    others = [call(str(n), P1, [n], choice_index=n, unserved=True) for n in (1, 2)]
    calls = [A, *others]
    assert [one.fault for one in judged(calls, lineage(calls)).values()] == [None, *["sibling_not_used"] * 2]


def test_a_served_answer_beside_a_retry_is_ambiguous_still():
    """Two responses, each with a first choice: nothing says which was delivered."""
    calls = [A, call("r", P1, [9]), call("c", P1, [8], choice_index=1, unserved=True)]
    assert [one.fault for one in judged(calls, lineage(calls)).values()] == ["ambiguous_siblings"] * 3
