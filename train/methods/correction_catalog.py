"""The corrections by name, as a settings file names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

from schemas.errors import SettingsError
from train.methods import bpo_weight, centering, corrections, gates, proximal
from train.methods.corrections import Correction

CORRECTIONS: dict[str, Any] = {
    rule.name: rule
    for rule in (
        corrections.NoCorrection,
        corrections.ImportanceSampling,
        corrections.TIS,
        corrections.IcePop,
        corrections.PPO,
        corrections.CISPO,
        corrections.DPPOTV,
        corrections.DPPOKL,
        corrections.IPO,
        gates.SequenceMIS,
        gates.TrustRegion,
        gates.OPSM,
        proximal.M2PO,
        proximal.DecoupledPPO,
        proximal.A3PO,
        bpo_weight.BPOWeight,
        centering.ScoreCentering,
    )
}
"""Every correction, by the name that settings use."""

Rule = Correction | str | Mapping[str, Any]
"""A correction: the object, its name, or a table with its name and options."""


def correction_by_name(rule: Rule) -> Correction:
    """The correction that was meant; an unknown name or option is refused with what there is."""
    # A settings file may hold a number or a list here.
    if not isinstance(rule, str | Mapping | Real | tuple):
        return rule
    options = dict(rule) if isinstance(rule, Mapping) else {"name": rule}
    name = options.pop("name", None)
    if name not in CORRECTIONS:
        raise SettingsError(f"correction {name!r}: expected one of {', '.join(sorted(CORRECTIONS))}; mend its name")
    kind = CORRECTIONS[name]
    known = [option.name for option in fields(kind)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise SettingsError(
            f"correction {name}: unknown option {unknown[0]!r}; expected among {', '.join(known) or 'none'}; mend it"
        )
    made: Correction = kind(**options)
    return made
