"""Versions of weights, as spans or as one name."""

from __future__ import annotations

import pytest

from tests.ingest.openai_made import chat, codes, read, read_one


def span(version: str, start: int, end: int) -> dict:
    """A span as vLLM and SGLang write it."""
    return {"version": version, "start": start, "end": end}


TWO = [span("7", 0, 1), span("8", 1, 3)]
SPANS = (("7", 0, 1), ("8", 1, 3))


@pytest.mark.parametrize(
    "choice",
    [{"weight_versions": TWO}, {"head": {"metadata": {"weight_versions": TWO, "weight_version": "8"}}},
     {"meta_info": {"weight_versions": TWO, "weight_version": "8"}}],
)  # fmt: skip
def test_spans_are_kept_and_come_before_the_single_version(choice):
    """The single one is only that of the end of the reply."""
    call = read_one(chat(token_ids=[1, 2, 3], **choice))
    assert call.weight_spans == SPANS
    assert "version_ambiguous" in codes(call)


def test_a_single_version_is_that_of_all_tokens():
    """Also of several choices; none is none."""
    answer = chat(token_ids=[1, 2, 3], head={"metadata": {"weight_version": "7"}})
    assert read_one(answer).weight_spans == (("7", 0, 3),)
    answer["choices"].append({**answer["choices"][0], "index": 1, "token_ids": [1]})
    answer["usage"] = None
    assert [call.weight_spans for call in read(answer)] == [(("7", 0, 3),), (("7", 0, 1),)]
    assert read_one(chat(token_ids=[1], head={"metadata": {"weight_version": None}})).weight_spans == ()


@pytest.mark.parametrize(
    "spans",
    [[span("7", 0, 2)], [span("7", 0, 2), span("8", 1, 3)], [span("7", 1, 3)], [span("7", 0, 4)],
     [span("7", 0, 3), span("8", 3, 2)]],
)  # fmt: skip
def test_spans_that_do_not_cover_each_token_once_are_a_fault(spans):
    """Too short, overlapping, late, too long, backwards."""
    assert "version_spans_incomplete" in codes(read_one(chat(token_ids=[1, 2, 3], weight_versions=spans)))


def test_metadata_of_other_kinds_is_left_alone():
    """OpenAI's is any object of texts."""
    assert read_one(chat(head={"metadata": {"weights": "heavy", "version": ["odd"]}})).log_format == "openai_chat"
