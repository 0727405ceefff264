"""Whether the messages of a request hold an image, sound or video: what a model was shown beside its token ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_LISTS = ('"content":[', '"content": [')
"""How the content of a message begins that is a list of parts, as all writers space it; most messages have none."""

_MEDIUM = re.compile(r"(?:input_)?(?:image|audio|video|media)(?:_[a-z]+)?")


def holds_media(messages_json: str) -> bool:
    """Whether a part of any message is an image, sound or video.

    Read are the parts of OpenAI and of the servers that extend it, of Anthropic, LangChain and the GenAI conventions:
    a list as the content of a message, whose parts say by their type, their modality or the name of a field what they
    are. A text that speaks of images is none.
    """
    return (_LISTS[0] in messages_json or _LISTS[1] in messages_json) and _has_medium(messages_json)


def _has_medium(messages_json: str) -> bool:
    try:
        messages = msgspec.json.decode(messages_json)
    except (msgspec.DecodeError, RecursionError):  # what cannot be read is judged by nobody
        return False
    told = messages if isinstance(messages, list) else [messages]
    contents = [message.get("content") for message in told if isinstance(message, Mapping)]
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return any(isinstance(part, Mapping) and _is_medium(part) for part in parts)


def _is_medium(part: Mapping[str, Any]) -> bool:
    named = [part.get("type"), part.get("modality"), *part]
    return any(isinstance(name, str) and _MEDIUM.fullmatch(name) for name in named)
