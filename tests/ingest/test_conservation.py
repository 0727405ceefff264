"""The checks that guard the write see what the code must never do."""

from __future__ import annotations

import numpy as np
import pytest

from ingest.branches import Branch, Span
from ingest.conservation import check_rows, check_spans
from schemas.errors import TracemillError
from tests.ingest.hand_made import G1, P1
from tests.ingest.test_stitch import A, B, call

WHOLE = Branch("main", (A,), (Span(A, 6, 10, owned=True),))


def test_tokens_that_would_train_twice_or_never_are_refused():
    """Each sampled token is owned once."""
    with pytest.raises(TracemillError, match="expected each once"):
        check_spans([A], [WHOLE, WHOLE])
    with pytest.raises(TracemillError, match="expected each once"):
        check_spans([A, B], [WHOLE])


def test_a_masked_token_must_not_be_owned():
    """The span is cut around it."""
    masked = call("a", P1, G1, masked=frozenset({1}))
    with pytest.raises(TracemillError, match="4 of 3 sampled tokens"):
        check_spans([masked], [Branch("main", (masked,), (Span(masked, 6, 10, owned=True),))])


def test_a_span_that_holds_other_tokens_is_refused():
    """Moved by one, or of a call that the sequence does not go through."""
    with pytest.raises(TracemillError, match="other tokens"):
        check_spans([A], [Branch("main", (A,), (Span(A, 5, 9, owned=True),))])
    stranger = call("s", P1[::-1], G1)
    spans = (Span(stranger, 6, 10, owned=True), Span(B, 14, 17, owned=True))
    with pytest.raises(TracemillError, match="other tokens"):
        check_spans([stranger, B], [Branch("main", (stranger, B), spans)])


def _row(mask: list[bool], logprobs: list[float]) -> dict[str, object]:
    """A written sequence, as far as the check reads it."""
    return {
        "num_action_tokens": sum(mask),
        "action_mask": np.array(mask),
        "token_logprobs": np.array(logprobs, dtype=np.float32),
    }


def test_rows_train_the_usable_tokens_of_the_calls():
    """Sampled tokens without those of faulty calls and without masked ones."""
    faulty = call("f", P1, G1, fault="sentinel_logprob")
    masked = call("m", P1, G1, masked=frozenset({0, 9}))
    check_rows("t", [A, faulty, masked], [_row([True] * 7, [-0.5] * 7)])
    with pytest.raises(TracemillError, match="6 action tokens; expected 7"):
        check_rows("t", [A, faulty, masked], [_row([True] * 6, [-0.5] * 6)])


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), -9999.0, 0.5])
def test_an_action_token_has_a_log_probability(number):
    """A finite one that is no sentinel and not above zero; elsewhere anything may stand."""
    check_rows("t", [A], [_row([True] * 4 + [False], [-0.5] * 4 + [number])])
    with pytest.raises(TracemillError, match="without a log-probability"):
        check_rows("t", [A], [_row([True] * 4, [-0.5, -0.5, -0.5, number])])
