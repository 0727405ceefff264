"""What operators search for in what clients write."""

import pytest

from ingest.patterns import compiled, search


def test_a_search_that_takes_too_long_is_no_match(monkeypatch):
    """A client's name of a model cannot hold up a night."""
    monkeypatch.setattr("ingest.patterns.LONGEST_MATCH_S", 0.05)
    assert search(r"^(a|a|aa)+$", "a" * 40 + "!") is None
    assert search("@(v[0-9]+)$", "toy@v7").group(1) == "v7"


@pytest.mark.parametrize("pattern", ["(?R)a", "(", "(" * 3000 + ")" * 3000, "a{99999999999999999999}"])
def test_a_pattern_that_cannot_be_used_is_refused(pattern):
    """Said at once, not in the middle of a night."""
    with pytest.raises(ValueError, match=r"mend it|shorten it"):
        compiled(pattern)
