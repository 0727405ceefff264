"""What the log-probabilities of one choice say, entry by entry or as parallel arrays, and which ids they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from ingest.formats.chat import LARGEST_ID, Logprobs, TokenEntry, TopToken
from ingest.formats.generation import TopList
from schemas.errors import LineError

_TOKEN_ID = re.compile(r"token_id:(\d{1,10})", re.ASCII)

_TOP_ENTRIES = msgspec.json.Decoder(list[TopToken] | None)
_TOP_BY_TEXT = msgspec.json.Decoder(list[dict[str, float | None] | None] | None)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The sampled tokens of one choice as its log-probabilities list them; one a token.

    `spelled` are the ids that the entries name, None where one of them names none; `by_text` says that they were
    read from `token_id:N`. `skipped` counts tokens of the prompt that stood before them.
    """

    logprobs: list[float | None] | None
    spelled: list[int] | None = None
    by_text: bool = False
    top: Sequence[TopList] = ()
    offsets: Sequence[int] | None = None
    skipped: int = 0

    def after(self, count: int) -> Tokens:
        """What is left without the first tokens, which an echo repeats from the prompt."""
        return replace(
            self,
            logprobs=None if self.logprobs is None else self.logprobs[count:],
            spelled=None if self.spelled is None else self.spelled[count:],
            top=self.top[count:],
            offsets=None if self.offsets is None else self.offsets[count:],
            skipped=self.skipped + count,
        )


def tokens_of(logprobs: Logprobs | int | float | None) -> Tokens | None:
    """The tokens of a choice; None where no log-probabilities were logged."""
    if not isinstance(logprobs, Logprobs):
        return None
    if logprobs.refusal:
        return _of_entries([*(logprobs.content or ()), *logprobs.refusal])
    if logprobs.content is not None:
        return _of_entries(logprobs.content)
    if logprobs.token_logprobs is None and logprobs.token_ids is None:
        return None
    return _of_arrays(logprobs)


def _of_entries(entries: list[TokenEntry]) -> Tokens:
    numbers = [entry.logprob for entry in entries]
    if not entries:
        return Tokens(numbers)
    spelled = None
    by_text = entries[0].token.startswith("token_id:")
    if by_text:
        spelled = _spelled(entry.token for entry in entries)
    elif entries[0].token_id is not None:
        named = [entry.token_id for entry in entries]
        spelled = [one for one in named if one is not None] if None not in named else None
    return Tokens(numbers, spelled, by_text, _top_of_entries(entries))


def _of_arrays(arrays: Logprobs) -> Tokens:
    texts = arrays.tokens or []
    by_text = arrays.token_ids is None and bool(texts) and texts[0].startswith("token_id:")
    spelled = _spelled(texts) if by_text else exact_ids(arrays.token_ids)
    return Tokens(arrays.token_logprobs, spelled, by_text, _top_of_arrays(arrays), arrays.text_offset)


def sampling_logprobs_differ(logprobs: Logprobs | int | float | None) -> bool:
    """Whether Fireworks' two log-probabilities of one token are ever two numbers."""
    entries = logprobs.content if isinstance(logprobs, Logprobs) else None
    return any(isinstance(one.sampling_logprob, float) and one.sampling_logprob != one.logprob for one in entries or ())


def texts_of(logprobs: Logprobs | int | float | None) -> list[str]:
    """The texts of all tokens that the log-probabilities list; empty where they are spelled by id or not logged."""
    if not isinstance(logprobs, Logprobs):
        return []
    entries = [*(logprobs.content or ()), *(logprobs.refusal or ())]
    texts = [entry.token for entry in entries] if entries else logprobs.tokens or []
    return [] if texts and texts[0].startswith("token_id:") else texts


def _exact_id(value: float) -> int:
    """An id that is logged as a JSON number, whole or with a fraction of zero; nothing is rounded."""
    if value != int(value) or not 0 <= value <= LARGEST_ID:
        raise LineError("bad_field", f"{value!r} among the token ids; expected a whole number below 2^31: mend the log")
    return int(value)


def exact_ids(values: Iterable[float | None] | None) -> list[int] | None:
    """Ids that are logged as JSON numbers, None where one is missing; LineError (`bad_field`) for one that is no id."""
    ids = [None if value is None else _exact_id(value) for value in values or ()]
    return None if values is None or None in ids else [one for one in ids if one is not None]


def _spelled(tokens: Iterable[str]) -> list[int] | None:
    ids = [_spelled_id(token) for token in tokens]
    return None if None in ids else [one for one in ids if one is not None]


def _spelled_id(token: str) -> int | None:
    match = _TOKEN_ID.fullmatch(token)
    value = int(match.group(1)) if match else -1
    return value if 0 <= value <= LARGEST_ID else None


def _top_of_entries(entries: list[TokenEntry]) -> Sequence[TopList]:
    """The top-K lists; nothing where the first is empty, for then none was asked for.

    A log names the tokens of all lists in the same way, so where the first names texts the others are not decoded.
    """
    first = _TOP_ENTRIES.decode(entries[0].top_logprobs)
    if not first:
        return ()
    if None in map(_id_of, first):
        return [[(None, None)]]
    tops = (_TOP_ENTRIES.decode(entry.top_logprobs) or [] for entry in entries)
    return [[(_id_of(one), one.logprob) for one in top] for top in tops]


def _id_of(entry: TopToken) -> int | None:
    return entry.token_id if entry.token_id is not None else _spelled_id(entry.token)


def _top_of_arrays(arrays: Logprobs) -> Sequence[TopList]:
    """The top-K dicts of completions, keyed by the token's text: only `token_id:N` names one token alone."""
    try:
        tops = _TOP_BY_TEXT.decode(arrays.top_logprobs) or []
    except msgspec.ValidationError:  # some other shape, of which no token is named
        return [[(None, None)]]
    return [[(_spelled_id(text), value) for text, value in (top or {}).items()] for top in tops]
