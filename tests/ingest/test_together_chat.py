"""Together's arrays in chat, ids as JSON numbers."""

from __future__ import annotations

import pytest

from schemas.errors import LineError
from tests.ingest.openai_made import L2, TEXTS, arrays, chat, ids, numbers, read, read_one


def test_ids_that_are_floats_are_ids():
    """The SDK types them so."""
    answer = chat(finish_reason="eos", logprobs=arrays(L2, TEXTS, token_ids=[401.0, 402, 13.0]), head={"prompt": []})
    call = read_one(answer)
    assert (ids(call.token_ids), numbers(call.token_logprobs)) == ([401, 402, 13], L2)
    assert (call.engine, call.finish_reason, call.notes, call.logprob_kind) == ("together", "stop", (), None)


@pytest.mark.parametrize("value", [1.5, 2.0**31, 1e18, -1.0])
def test_a_float_that_is_no_id_takes_the_line(value):
    """Nothing is rounded."""
    with pytest.raises(LineError) as refused:
        read(chat(logprobs=arrays([-1.0], ["a"], token_ids=[value])))
    assert refused.value.reason == "bad_field"
