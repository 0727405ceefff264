"""A prompt whose ids were not logged, read from the prompt of the call that comes after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ingest.branches import ID_BYTES
from ingest.meant import MeantCall


def with_prompts(calls: Sequence[MeantCall]) -> list[MeantCall]:
    """The calls, with those prompts filled in that the next call's prompt states beyond doubt.

    A next prompt begins with the prompt before it and the reply to that. So the ids before the reply are the missing
    prompt if the log says which call is next, if the reply stands in its prompt exactly once, and if it stands after
    as many tokens as the server counted for the missing prompt: history that was rendered otherwise, such as
    without its thinking, has another length. Nothing is re-tokenised.
    """
    if all(call.prompt is not None for call in calls):
        return list(calls)
    indices = Counter(call.values["call_index"] for call in calls)
    found = {call.values["call_index"]: call for call in calls if indices[call.values["call_index"]] == 1}
    found.pop(None, None)
    for index in sorted(found, reverse=True):
        call, following = found[index], found.get(index + 1)
        if call.prompt is None and following is not None:
            prompt = _prompt(call, following)
            if prompt is not None:
                found[index] = call.with_prompt(prompt)
    return [found.get(call.values["call_index"], call) for call in calls]


def _prompt(call: MeantCall, following: MeantCall) -> bytes | None:
    reply, longer, length = call.token_ids, following.prompt, call.values["num_prompt_tokens"]
    if not reply or longer is None or length is None or length <= 0:
        return None
    at = length * ID_BYTES
    is_there = longer.startswith(reply, at)
    return longer[:at] if is_there and _num_occurrences(longer, reply) == 1 else None


def _num_occurrences(ids: bytes, wanted: bytes) -> int:
    """How often a run of ids stands in another, at whole ids only; overlapping ones count, and two are enough."""
    count, at = 0, ids.find(wanted)
    while at >= 0 and count < 2:
        if at % ID_BYTES == 0:
            count += 1
        at = ids.find(wanted, at + 1)
    return count
