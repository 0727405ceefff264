"""The closed list of reasons: each says what is wrong and what to do."""

import pytest

from schemas.reasons import REASONS, reason


@pytest.mark.parametrize("code", REASONS)
def test_a_reason_has_a_sentence_and_a_fix(code):
    """Both are sentences; the code is a name."""
    found = REASONS[code]
    assert found.code == code
    assert code.isidentifier()
    assert code == code.lower()
    for text in (found.sentence, found.fix):
        assert text[0].isupper() or text.startswith("vLLM"), text
        assert text.endswith("."), text


def test_every_scope_is_in_use():
    """Lines are rejected, traces quarantined or pending, and the rest are notes."""
    assert {found.scope for found in REASONS.values()} == {"line", "trace", "note", "pending"}


def test_the_list_is_closed():
    """A code that is not in it is an error that says where to add it."""
    assert reason("bad_json").scope == "line"
    with pytest.raises(KeyError, match=r"schemas/reasons\.py"):
        reason("bad_weather")
