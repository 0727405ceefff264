"""Groups of traces that a measurement is repeated for: all of them, each version, each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from validate.check import ALL, Estimate, Reading, unmeasured
from validate.segments import Booleans
from validate.statistics import wilson
from validate.traces import Texts

Groups = Mapping[str, Booleans]
"""Members by subject: `all` first, then `version:NAME` and so on; each [N]."""


def group_by(within: Booleans, *, prefix: str, names: Texts) -> dict[str, Booleans]:
    """The members of each name among the traces `within`, in the order of names; null names form no group."""
    known = sorted({name for name in names[within] if name is not None})
    return {f"{prefix}:{name}": within & (names == name) for name in known}


def groups_of(within: Booleans, versions: Texts, order: Sequence[str]) -> dict[str, Booleans]:
    """All traces `within`, and those of each version: first in the given `order`, then the others by name."""
    by_version = group_by(within, prefix="version", names=versions)
    ranked = [f"version:{name}" for name in order]
    known = [subject for subject in ranked if subject in by_version]
    others = [subject for subject in by_version if subject not in ranked]
    return {ALL: within, **{subject: by_version[subject] for subject in [*known, *others]}}


def share_reading(name: str, num_hits: int, num_trials: int, what: str, subject: str = ALL) -> Reading:
    """A share with its score interval, said in figures; not measured over nothing."""
    if num_trials == 0:
        return unmeasured(name, f"nothing to take the share of: 0 {_noun(what)}", subject=subject)
    sentence = f"{num_hits:,} of {num_trials:,} {what}"
    return Reading(name=name, estimate=wilson(num_hits, num_trials), sentence=sentence, subject=subject)


def token_share_reading(name: str, num_hits: int, num_tokens: int, what: str, subject: str = ALL) -> Reading:
    """A share of tokens, without an interval: tokens of one trace hang together, so their count bounds nothing."""
    estimate = Estimate(num_hits / num_tokens, num_observations=num_tokens)
    return Reading(name=name, estimate=estimate, sentence=f"{num_hits:,} of {num_tokens:,} {what}", subject=subject)


def shares_by_group(name: str, flags: Booleans, groups: Groups, what: str) -> list[Reading]:
    """The share of flagged traces in each group."""
    return [
        share_reading(name, int(np.count_nonzero(flags & members)), int(np.count_nonzero(members)), what, subject)
        for subject, members in groups.items()
    ]


def _noun(what: str) -> str:
    return what.split(" ", 1)[0]
