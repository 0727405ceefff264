"""What the correction for staleness would do tonight: whether this run would equal plain policy gradient."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.numbers import PLAIN_DEPARTURE
from validate.check import Estimate, Reading, unmeasured
from validate.group import share_reading
from validate.segments import Booleans, Floats, carried, segments_of
from validate.statistics import effective_size
from validate.traces import Traces

_STRIDE = 1 << 32  # above any sequence_index, an int32: trace and sequence become one number
_FROM_RATIOS = ("ratio_departure", "mean_ratio_factor", "effective_token_share")


def scan_regime(
    traces: Traces, scored: pa.Table, *, beyond: Booleans, asked: Booleans, admitted: Booleans
) -> list[Reading]:
    """The share that the trust masks, and how far the ratios of admitted tokens are from 1.

    `scored` holds `logprobs` under the current policy by trace and sequence; `asked` [N] are the scored traces that are
    fit in all else, `beyond` [N] those over the trust.
    """
    num_masked, num_asked = int(np.count_nonzero(beyond & asked)), int(asked.sum())
    masked = share_reading("trust_masked_share", num_masked, num_asked, "traces that are else fit are over the trust")
    ratios = admitted_ratios(traces, scored, admitted)
    if ratios.size == 0:
        why = "no admitted trace has log-probabilities under the current policy"
        return [masked, *(unmeasured(name, why) for name in _FROM_RATIOS)]
    departure = float(np.abs(ratios - 1.0).mean())
    mean = float(ratios.mean())
    factor = max(mean, 1.0 / mean)
    effective = effective_size(ratios) / ratios.size
    what = f"over {ratios.size:,} admitted action tokens"
    is_plain = departure < PLAIN_DEPARTURE and num_masked == 0
    verdict = "; this run would equal plain policy gradient" if is_plain else ""
    return [
        masked,
        # No interval: tokens of one trace hang together, so their number says little about the mean's error.
        Reading(
            name="ratio_departure",
            estimate=Estimate(departure, num_observations=ratios.size),
            sentence=f"{departure:.3g} {what}{verdict}",
        ),
        Reading(
            name="mean_ratio_factor",
            estimate=Estimate(factor, num_observations=ratios.size),
            sentence=f"the mean ratio is {mean:.3f} {what}",
        ),
        Reading(
            name="effective_token_share",
            estimate=Estimate(effective, num_observations=ratios.size),
            sentence=f"{effective:.1%}: the ratios weigh like {effective * ratios.size:,.0f} equal tokens {what}",
        ),
    ]


def admitted_ratios(traces: Traces, scored: pa.Table, admitted: Booleans) -> Floats:
    """Importance ratios of the action tokens of admitted traces, one after the other.

    A sequence without a row in `scored`, or with one of another length, gives none.
    """
    places = pc.index_in(scored["trace_id"], value_set=traces.trace_ids)
    known = pc.fill_null(places, 0).to_numpy().astype(np.int64)
    wanted = places.is_valid().to_numpy() & admitted[known]
    scored_rows = np.flatnonzero(wanted)
    keys = known[scored_rows] * _STRIDE + scored["sequence_index"].to_numpy()[scored_rows]
    own_keys = traces.owners * _STRIDE + traces.sequences["sequence_index"].to_numpy()
    _, left, right = np.intersect1d(own_keys, keys, return_indices=True)
    mine = traces.sequences.select(["token_logprobs", "action_mask"]).take(pa.array(left))
    behavior, mask = segments_of(mine["token_logprobs"]), segments_of(mine["action_mask"])
    current = segments_of(scored.select(["logprobs"]).take(pa.array(scored_rows[right]))["logprobs"])
    is_aligned = (behavior.lengths == mask.lengths) & (behavior.lengths == current.lengths)
    on_action = is_aligned[mask.owners] & mask.values
    own = behavior.values[carried(on_action, mask, behavior, is_aligned)]
    now = current.values[carried(on_action, mask, current, is_aligned)]
    log_ratio = now.astype(np.float64) - own.astype(np.float64)
    return np.asarray(np.exp(log_ratio[np.isfinite(log_ratio)]), np.float64)
