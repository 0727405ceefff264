"""Rows of `calls` under the present settings: what was logged stays, what it means is read anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ingest.branches import LoggedCall
from ingest.faults import FIELD_KINDS, Drawn, is_foreign, judge_again, masking_fault
from ingest.meaning import Facts, Interpreter, Meaning
from ingest.sampling import parameters_of


@dataclass(frozen=True, slots=True)
class CallRow:
    """One row of `calls`: its plain columns, and its lists packed."""

    values: Mapping[str, Any]
    prompt: bytes | None
    token_ids: bytes | None
    token_logprobs: bytes | None


@dataclass(frozen=True, slots=True)
class MeantCall:
    """One call, what its numbers mean and what is wrong with it under the present settings."""

    values: Mapping[str, Any]
    prompt: bytes | None
    token_ids: bytes | None
    token_logprobs: bytes | None
    meaning: Meaning
    codes: tuple[str, ...]

    def with_prompt(self, prompt: bytes) -> MeantCall:
        """The same call with a prompt that another call's repeats."""
        codes = {*self.codes, "prompt_from_successor"} - {"no_prompt_ids"}
        return replace(self, prompt=prompt, codes=tuple(sorted(codes)))

    def with_code(self, code: str) -> MeantCall:
        """The same call with one more code."""
        return replace(self, codes=tuple(sorted({*self.codes, code})))

    def logged(self) -> LoggedCall:
        """The call as stitching wants it."""
        return LoggedCall(
            call_id=self.values["call_id"],
            prompt=self.prompt,
            token_ids=self.token_ids,
            token_logprobs=self.token_logprobs,
            started_at=self.values["started_at"],
            ended_at=self.values["ended_at"],
            call_index=self.values["call_index"],
            response_id=self.values["response_id"],
            choice_index=self.values["choice_index"],
            fault=masking_fault(self.codes) or ("conflicting_copies" if "conflicting_copies" in self.codes else None),
            masked=frozenset(self.values["masked_positions"] or ()),
            unserved=self.meaning.choice_selection == "first"
            and self.values["num_choices"] > 1
            and self.values["choice_index"] != 0,
        )


def _versions(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The weights that sampled the tokens, each once; of a row of version 1 the version that it landed with."""
    spans, landed = values["version_spans"], values["landed_version"]
    if spans is None and landed is not None:
        return (landed,)
    return tuple(dict.fromkeys(span["policy_version"] for span in spans or ()))


class Reader:
    """Reads rows of `calls` under the settings of an interpreter; calls of one log say the same few things."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._cached = lru_cache(maxsize=4096)(self._judged)

    def __call__(self, call: CallRow) -> MeantCall:
        """The call and what it means."""
        values = call.values
        facts = Facts(
            model=values["model"],
            deployment=values["logged_deployment"],
            landed_as=values["landed_as"],
            engine=values["engine"],
            versions=_versions(values),
        )
        drawn = (values["choice_index"], values["num_choices"], call.token_logprobs is not None)
        meaning, codes = self._cached(facts, values["sampling_json"], drawn, tuple(values["notes"]))
        if is_foreign((call.prompt, call.token_ids), meaning):
            codes = tuple(sorted({*codes, "ids_out_of_vocab"}))
        return MeantCall(values, call.prompt, call.token_ids, call.token_logprobs, meaning, codes)

    def _judged(
        self, facts: Facts, sampling_json: str, drawn: tuple[int, int, bool], notes: tuple[str, ...]
    ) -> tuple[Meaning, tuple[str, ...]]:
        """The meaning, and the codes that do not depend on tokens."""
        found = json.loads(sampling_json)
        sampling: Mapping[str, Any] = found if isinstance(found, dict) else {}
        kind = next((FIELD_KINDS[code] for code in notes if code in FIELD_KINDS), None)
        meaning = self._interpreter.meaning_of(replace(facts, kind=kind, parameters=parameters_of(sampling)))
        choice_index, num_choices, has_logprobs = drawn
        whole = Drawn(sampling=sampling, choice_index=choice_index, num_choices=num_choices, has_logprobs=has_logprobs)
        return meaning, judge_again(notes, whole, (), meaning)
