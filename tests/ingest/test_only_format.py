"""With `--format` every line is of that format, or a reject."""

import pytest

from ingest.formats.detect import RecordReader, format_named
from schemas.errors import LineError
from tests.ingest.hand_made import G1, L1, P1, entries, envelope, first_call, line

CHUNKS = [
    {
        "id": "s",
        "created": 1_795_420_800,
        "model": "toy@v7",
        "prompt_token_ids": P1,
        "choices": [
            {
                "index": 0,
                "delta": {"content": "a"},
                "token_ids": G1,
                "stop_reason": None,
                "finish_reason": "stop",
                "logprobs": {"content": entries(L1)},
            }
        ],
    }
]


@pytest.mark.parametrize("text", [first_call(), line(envelope(CHUNKS))], ids=["whole", "streamed"])
def test_a_line_of_another_format_is_refused_and_says_so(text):
    """It has choices, but they are another server's."""
    with pytest.raises(LineError, match="expected openai_chat: see") as refused:
        RecordReader(format_named("openai_chat"))(text)
    assert refused.value.reason == "schema_unknown"


@pytest.mark.parametrize("text", [first_call(), line(envelope(CHUNKS))], ids=["whole", "streamed"])
def test_a_line_of_the_format_is_read(text):
    """As it would be without the option."""
    assert RecordReader(format_named("vllm_chat"))(text) == RecordReader()(text)
