"""Whether a trace is whole: ids and lengths of its tokens, and its calls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from validate.check import Reading, unmeasured
from validate.group import Groups, shares_by_group, token_share_reading
from validate.logprobs import TokenCounts
from validate.segments import Booleans
from validate.statistics import mean_interval
from validate.traces import Traces


def find_broken(traces: Traces, counts: TokenCounts, *, required_calls: Mapping[str, int]) -> dict[str, Booleans]:
    """[N] per reason: which traces are not whole.

    `required_calls` is the number of calls that a complete trace of a workload has; other workloads are not asked.
    A trace of tokens that are all faulty is not without action tokens: the fault is what is wrong with it.
    """
    is_uneven = traces.any_of(~counts.is_aligned)
    is_empty = traces.sum_of(counts.num_action) == 0
    return {
        "len_mismatch": is_uneven,
        "no_action_tokens": is_empty & ~traces.has_any_fault() & ~is_uneven,
        "ids_out_of_vocab": traces.any_of(counts.least_id < 0),
        "missing_call": _misses_call(traces, required_calls),
    }


def _misses_call(traces: Traces, required_calls: Mapping[str, int]) -> Booleans:
    workloads, num_calls = traces.texts("workload"), traces.of_trace("num_calls").to_numpy()
    missing = np.zeros(traces.num_traces, np.bool_)
    for workload, number in required_calls.items():
        missing |= (workloads == workload) & (num_calls < number)
    return missing


def scan_structure(traces: Traces, counts: TokenCounts, groups: Groups, *, is_usable: Booleans) -> list[Reading]:
    """Forks of usable traces, cut replies, own tokens, over all traces and by version.

    Without prompt ids nothing can be continued, so whether such a trace forked is not known.
    """
    is_forked = traces.of_trace("num_sequences").to_numpy() > 1
    is_cut = traces.any_of(np.asarray(traces.sequences["truncated"].to_numpy(), np.bool_))
    usable = {subject: members & is_usable for subject, members in groups.items()}
    readings = shares_by_group("forked_share", is_forked, usable, "usable traces have several sequences")
    readings += shares_by_group("truncated_share", is_cut, groups, "traces ended by length or abort")
    action, tokens = traces.sum_of(counts.num_action), traces.sum_of(counts.num_tokens)
    for subject, members in groups.items():
        num_action, num_tokens = int(action[members].sum()), int(tokens[members].sum())
        has_any = members & (action > 0)
        if num_tokens == 0 or not has_any.any():
            why = "no token of these traces was logged with its id"
            readings += [unmeasured(name, why, subject=subject) for name in ("action_token_share", "action_tokens")]
            continue
        what = "tokens were sampled by the policy and may be trained on"
        readings.append(token_share_reading("action_token_share", num_action, num_tokens, what, subject))
        length = mean_interval(action[has_any])
        sentence = f"{length.value:.1f} tokens in the mean of {length.num_observations:,} traces"
        readings.append(Reading(name="action_tokens", estimate=length, sentence=sentence, subject=subject))
    return readings
