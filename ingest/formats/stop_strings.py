"""Which sampled tokens lie wholly behind a stop string: the engine cut their text, yet lists their ids."""

from __future__ import annotations

from collections.abc import Sequence


def behind_stop(texts: Sequence[str], reply: str | None, stop: str) -> tuple[int, ...] | None:
    """The positions of the tokens that begin at or after the end of the stop string; the one that completes it stays.

    Where the reply is the beginning of the tokens' text, it says where the stop string stands. Else it is the first
    place at which the tokens spell it, for there the engine stops. None when they do not: texts that a tokenizer
    cannot give one by one (halves of a character) hide it, and then nothing says which tokens are behind.
    """
    whole = "".join(texts)
    end = _end(whole, reply, stop)
    if end is None:
        return None
    position = 0
    for place, text in enumerate(texts):
        if position >= end:
            return tuple(range(place, len(texts)))
        position += len(text)
    return ()


def masked_behind(
    texts: Sequence[str | None], reply: str | None, stop: object, num_tokens: int, found: list[str]
) -> tuple[int, ...]:
    """Positions wholly behind the stop string, where one ended the reply; noted where nothing can say it.

    A stop by token id masks nothing, for that token was sampled. Tokens whose texts were not logged, or not one a
    token, say nothing.
    """
    if not isinstance(stop, str) or not stop or not num_tokens:
        return ()
    known = [text for text in texts if text is not None]
    behind = behind_stop(known, reply, stop) if len(known) == len(texts) == num_tokens else None
    if behind is None:
        found.append("stop_string_not_found")
    return behind or ()


def _end(whole: str, reply: str | None, stop: str) -> int | None:
    if reply and whole.startswith(reply):
        if reply.endswith(stop) and reply.find(stop) == len(reply) - len(stop):  # include_stop_str_in_output
            return len(reply)
        if whole.startswith(stop, len(reply)):
            return len(reply) + len(stop)
    start = whole.find(stop)
    return None if start < 0 else start + len(stop)
