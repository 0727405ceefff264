"""The closed list of reasons: each says what is wrong and what to do."""

import re
from pathlib import Path

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


SOURCES = [
    path
    for folder in ("ingest", "validate", "warehouse", "train", "flows")
    for path in (Path(__file__).parents[2] / folder).rglob("*")
    if path.suffix in (".py", ".sql") and path.name != "waterfall.py"
]


def test_every_reason_is_given_somewhere():
    """One that nothing gives promises a check that is not made, but for one of old lakes and the judge scan's own."""
    text = "\n".join(path.read_text("utf-8") for path in SOURCES)
    named = set(re.findall(r"""["']([a-z0-9_]+)["']|\b([a-z0-9_]+)=told""", text))
    given = {one for pair in named for one in pair}
    assert set(REASONS) - given == {"judge_directed_text", "no_trace_id"}


def test_the_list_is_closed():
    """A code that is not in it is an error that says where to add it."""
    assert reason("bad_json").scope == "line"
    with pytest.raises(KeyError, match=r"schemas/reasons\.py"):
        reason("bad_weather")
