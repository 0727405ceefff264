"""Whether a request showed the model more than text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.formats.dialogue import messages_json
from ingest.media import holds_media


def asked(*parts: Any) -> str:
    """Messages of one user, in these parts."""
    return json.dumps([{"role": "system", "content": "You help."}, {"role": "user", "content": list(parts)}])


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "a.png"}},
        {"image_url": {"url": "a.png"}},
        {"type": "input_image", "file_id": "f"},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "image", "source": {"type": "base64", "data": ""}},
        {"type": "video_url", "video_url": {"url": "a.mp4"}},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav"},
    ],
)
def test_a_part_that_is_no_text_is_found(part):
    """In the words of OpenAI, vLLM, Anthropic and the GenAI conventions."""
    assert holds_media(asked({"type": "text", "text": "What is this?"}, part))
    assert holds_media(json.dumps(json.loads(asked(part)), separators=(",", ":")))


@pytest.mark.parametrize(
    "document",
    [
        asked({"type": "text", "text": '{"type": "image_url"}'}),
        json.dumps([{"role": "user", "content": "image_url"}]),
        json.dumps([{"role": "user", "content": [{"type": "text", "text": "image"}]}]),
        json.dumps([{"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": {"image": 1}}}]}]),
        '[{"role": "user", "content": ["image" that breaks its JSON"]}]',
        '{"content": ["image", 7, null, [{"type": "image"}]]}',
        '{"content": [' + "[" * 5000 + '"image"' + "]" * 5000 + "]}",
    ],
)
def test_a_text_about_images_is_none(document):
    """Nor is a field of a tool's arguments, or what nobody can read."""
    assert not holds_media(document)


def test_a_medium_of_the_genai_conventions_is_kept_without_its_bytes():
    """Beside the text of the message, which reads as before."""
    parts = [
        {"type": "text", "content": "What is this?"},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
    ]
    told = messages_json([{"role": "user", "parts": parts}])
    assert told is not None
    assert holds_media(told)
    assert "AAAA" not in told
    assert json.loads(told)[0]["content"][0] == {"type": "text", "text": "What is this?"}
