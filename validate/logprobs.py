"""Whether log-probabilities are there and are measurements: presence, length, range, placeholders, constants.

Everything is counted on action tokens: what stands elsewhere, NaN included, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from schemas.numbers import SENTINEL
from validate.check import Reading, unmeasured
from validate.group import Groups, token_share_reading
from validate.segments import Booleans, Floats, Integers, carried, segments_of
from validate.statistics import mean_interval
from validate.traces import Traces

NUM_DECIMALS = 4
"""Decimals up to which a number counts as rounded. Convention, untested: float32 logits have seven digits."""
BATCH_ROWS = 16384
"""Sequences that are looked at in one piece, to bound memory. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenCounts:
    """[S] what the tokens of each sequence show; counts are of action tokens unless they say else."""

    num_tokens: Integers
    """All tokens, prompt included."""
    num_action: Integers
    """Action tokens; none in a sequence whose lists differ in length."""
    is_aligned: Booleans
    """Whether ids, log-probabilities and mask have one length."""
    num_missing: Integers
    """Action tokens without a number."""
    num_nonfinite: Integers
    """Action tokens with NaN or infinity."""
    num_positive: Integers
    """Action tokens above 0."""
    num_sentinel: Integers
    """Action tokens with a placeholder."""
    num_zero: Integers
    """Action tokens at exactly 0."""
    num_rounded: Integers
    """Non-zero numbers of `NUM_DECIMALS` decimals or fewer."""
    sum_logprob: Floats
    """Sum of the measurements among them."""
    num_measured: Integers
    """How many those are."""
    least: Floats
    """Least finite number; +inf when there is none."""
    greatest: Floats
    """Greatest finite number; -inf when there is none."""
    least_id: Floats
    """Least token id, prompt included; +inf when there is none."""


def count_tokens(sequences: pa.Table) -> TokenCounts:
    """What the tokens of these sequences show, row by row."""
    wanted = sequences.select(["token_ids", "token_logprobs", "action_mask"])
    parts = list(_count_pieces(wanted))
    if not parts:
        return _count(wanted)
    joined = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(TokenCounts)
    }
    return TokenCounts(**joined)


def _count_pieces(sequences: pa.Table) -> Iterator[TokenCounts]:
    for start in range(0, sequences.num_rows, BATCH_ROWS):
        yield _count(sequences.slice(start, BATCH_ROWS))


def _count(sequences: pa.Table) -> TokenCounts:
    ids, logprobs, mask = (segments_of(sequences[name]) for name in ("token_ids", "token_logprobs", "action_mask"))
    is_aligned = (ids.lengths == logprobs.lengths) & (ids.lengths == mask.lengths)
    # A sequence of unequal lists is out already; none of its numbers can be told to be an action token's.
    on_action = carried(mask.values, mask, logprobs, is_aligned)
    is_there = on_action & logprobs.present
    values = np.where(is_there, logprobs.values, np.nan).astype(np.float64)
    is_finite = np.isfinite(values)
    is_sentinel = is_finite & (values <= SENTINEL)
    is_measured = is_finite & ~is_sentinel
    measured = np.where(is_measured, values, 0.0)
    is_rounded = np.round(measured, NUM_DECIMALS).astype(np.float32) == measured.astype(np.float32)
    return TokenCounts(
        num_tokens=ids.lengths,
        num_action=np.where(is_aligned, mask.sum_of(mask.values), 0),
        is_aligned=is_aligned,
        num_missing=logprobs.sum_of(on_action & ~logprobs.present),
        num_nonfinite=logprobs.sum_of(is_there & ~is_finite),
        num_positive=logprobs.sum_of(is_measured & (values > 0)),
        num_sentinel=logprobs.sum_of(is_sentinel),
        num_zero=logprobs.sum_of(is_measured & (values == 0)),
        num_rounded=logprobs.sum_of(is_measured & (values != 0) & is_rounded),
        sum_logprob=logprobs.total_of(measured),
        num_measured=logprobs.sum_of(is_measured),
        least=logprobs.least_of(np.where(is_finite, values, np.inf)),
        greatest=logprobs.greatest_of(np.where(is_finite, values, -np.inf)),
        least_id=ids.least_of(ids.values.astype(np.float64)),
    )


def find_bad_logprobs(traces: Traces, counts: TokenCounts, *, constant_run: int) -> dict[str, Booleans]:
    """[N] per reason: which traces have log-probabilities that are missing or are no measurements.

    `constant_run` is the number of action tokens from which on equal numbers count as filled in.
    """
    num_measured = traces.sum_of(counts.num_measured)
    least, greatest = np.full(traces.num_traces, np.inf), np.full(traces.num_traces, -np.inf)
    np.minimum.at(least, traces.owners, counts.least)
    np.maximum.at(greatest, traces.owners, counts.greatest)
    return {
        "no_behavior_logprobs": traces.any_of(counts.num_missing > 0),
        "sentinel_logprob": traces.any_of(counts.num_sentinel > 0),
        "nonfinite_logprob": traces.any_of(counts.num_nonfinite > 0),
        "positive_logprob": traces.any_of(counts.num_positive > 0),
        "constant_logprob": (num_measured >= constant_run) & (least == greatest),
    }


def scan_logprobs(traces: Traces, counts: TokenCounts, groups: Groups) -> list[Reading]:
    """Exact zeros, decimals and mean of the log-probabilities, over all and by version."""
    readings: list[Reading] = []
    measured, zero = traces.sum_of(counts.num_measured), traces.sum_of(counts.num_zero)
    rounded, total = traces.sum_of(counts.num_rounded), traces.sum_of(counts.sum_logprob)
    for subject, members in groups.items():
        num_measured, num_zero = int(measured[members].sum()), int(zero[members].sum())
        if num_measured == 0:
            why = "no action token with a log-probability"
            readings += [unmeasured(name, why, subject=subject) for name in _TOKEN_SHARES]
            continue
        what = "log-probabilities are 0"
        readings.append(token_share_reading("exact_zero_share", num_zero, num_measured, what, subject))
        num_rounded, num_other = int(rounded[members].sum()), num_measured - num_zero
        if num_other:
            what = f"non-zero log-probabilities have {NUM_DECIMALS} decimals or fewer"
            readings.append(token_share_reading("rounded_logprob_share", num_rounded, num_other, what, subject))
        else:
            readings.append(unmeasured("rounded_logprob_share", "every log-probability is 0", subject=subject))
        has_any = members & (measured > 0)
        mean = mean_interval(total[has_any] / measured[has_any])
        sentence = f"{mean.value:.3f} nats a token in the mean of {mean.num_observations:,} traces"
        readings.append(Reading(name="mean_logprob", estimate=mean, sentence=sentence, subject=subject))
    return readings


_TOKEN_SHARES = ("exact_zero_share", "rounded_logprob_share", "mean_logprob")
