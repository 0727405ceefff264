"""The prompts of a request and its response, as ids: which prompt a choice answers, and what an echo repeats of it."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw

from ingest.formats.chat import PromptPart, Request, Response
from ingest.formats.sizes import TokenId
from ingest.formats.tokens import Tokens, exact_ids
from schemas.errors import LineError

_PROMPT = msgspec.json.Decoder(str | list[str | TokenId | list[TokenId]] | None)
_PARTS = msgspec.json.Decoder(list[PromptPart])


@dataclass(frozen=True, slots=True)
class Prompts:
    """What was sent to a completions endpoint: one prompt, or a batch that is answered prompt by prompt."""

    texts: tuple[str, ...] = ()
    ids: tuple[list[int], ...] = ()
    """Of prompts that were sent as ids; what the server rendered is not among them."""

    @property
    def count(self) -> int:
        """How many prompts there are; a chat has one."""
        return max(len(self.texts), len(self.ids), 1)


def prompts_of(request: Request) -> Prompts:
    """The prompts of a completions request; a `prompt` of another form than OpenAI's says nothing."""
    if not isinstance(request.prompt, Raw):
        return Prompts()
    try:
        prompt = _PROMPT.decode(request.prompt)
    except msgspec.ValidationError:
        return Prompts()
    if isinstance(prompt, str):
        return Prompts(texts=(prompt,))
    flat = [one for one in prompt or () if isinstance(one, int)]
    if flat:
        return Prompts(ids=(flat,)) if len(flat) == len(prompt or ()) else Prompts()
    return Prompts(
        texts=tuple(one for one in prompt or () if isinstance(one, str)),
        ids=tuple(one for one in prompt or () if isinstance(one, list)),
    )


def listed_prompts(response: Response) -> list[list[int]]:
    """The ids of all prompts as the head of a response lists them: flat, one list a prompt, base64, or Together's."""
    if response.prompt_token_ids:
        return _lists(response.prompt_token_ids)
    if response.prompt_token_ids_b64:
        encoded = response.prompt_token_ids_b64
        return [_unpacked(one) for one in ([encoded] if isinstance(encoded, str) else encoded)]
    if isinstance(response.prompt, Raw) and bytes(response.prompt).lstrip()[:1] == b"[":
        parts = _PARTS.decode(response.prompt)
        found = [exact_ids(part.logprobs.token_ids) if part.logprobs is not None else None for part in parts]
        return [ids or [] for ids in found]
    return []


def _lists(ids: list[int | list[int]]) -> list[list[int]]:
    if not isinstance(ids[0], list):
        # Typed lists are flat almost always, and their elements are not looked at one by one: packing refuses others.
        return [ids]  # type: ignore[list-item]  # see above
    if not all(isinstance(one, list) for one in ids):
        raise LineError("bad_field", "prompt_token_ids mixes ids and lists; expected either: mend the log")
    return [one for one in ids if isinstance(one, list)]


def _unpacked(encoded: str) -> list[int]:
    """Ids of base64 text: little-endian int32, as TensorRT-LLM's disaggregated serving sends them."""
    try:
        packed = base64.b64decode(encoded, validate=True)
        ids = list(struct.unpack(f"<{len(packed) // 4}i", packed))
    except (ValueError, struct.error) as error:
        raise LineError(
            "bad_field", f"prompt_token_ids_b64: {error}; expected base64 of int32: mend the log"
        ) from error
    if any(one < 0 for one in ids):
        raise LineError("bad_field", f"prompt_token_ids_b64 holds {min(ids)}; expected ids from 0 on: mend the log")
    return ids


def asks_for_echo(request: Request) -> bool | None:
    """Whether a request asks for the prompt to be repeated; None where no request was logged."""
    return bool(request.echo) if request.echo is not UNSET or request.prompt is not UNSET else None


def echoes(asked: bool | None, tokens: Tokens, num_prompt: int | None, num_completion: int | None) -> bool:
    """Whether the log-probabilities begin with those of the prompt.

    The request says so; where none was logged, the counts and the missing first number do.
    """
    if not tokens.logprobs:
        return False
    if asked is not None:
        return asked
    if not num_prompt or num_completion is None:
        return False
    return tokens.logprobs[0] is None and len(tokens.logprobs) == num_prompt + num_completion


def without_echo(tokens: Tokens, num_prompt: int | None, prompt: str | None) -> tuple[Tokens, tuple[str, ...]]:
    """The tokens behind an echoed prompt, cut by the server's count of its tokens.

    Where the count is missing or too large, or the offsets say that the first of them stands in the prompt's text,
    it is noted as `len_mismatch`: then nothing says where the prompt ends.
    """
    if num_prompt is None or num_prompt > len(tokens.logprobs or ()):
        return tokens, ("len_mismatch",)
    rest = tokens.after(num_prompt)
    if prompt is not None and rest.offsets and rest.offsets[0] < len(prompt):
        return rest, ("len_mismatch",)
    return rest, ()
