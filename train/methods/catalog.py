"""The methods by name, as a settings file names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from schemas.errors import SettingsError
from train.batch import Batch
from train.methods.baselines import GRPO, RAE, Reinforce
from train.methods.bpco import BPCO
from train.methods.bpo import BPO
from train.methods.flash_reinforce import FlashReinforce
from train.methods.klpo import KLPO
from train.methods.sao import SAO
from train.methods.update import Update
from train.records import Kind


class Method(Protocol):
    """A frozen object with its options and one update."""

    name: ClassVar[str]

    @property
    def splits(self) -> bool:
        """Whether a part of a batch can be updated by itself, coefficient by coefficient as in the whole."""

    @property
    def needs_groups(self) -> bool:
        """Whether the traces of one ask have to be in one batch, at least two of each."""

    @property
    def needs_critic(self) -> bool:
        """Whether it reads the values of a critic, and has targets for it."""

    @property
    def value_range(self) -> tuple[float, float] | None:
        """Where such a critic is bounded to; None leaves it unbounded."""

    @property
    def needs_records(self) -> Kind | None:
        """The records that a batch has to bring; None for a method that reads none.

        "expected" and "draws" take the weights that wrote a trace, "top_k" the heads that were logged with it.
        """

    def update(self, batch: Batch) -> Update:
        """The update of a scored batch."""


def after(method: Method, update: Update) -> Method:
    """The method for the next batch: the same, but for what a method with a memory carries on."""
    if not update.state:
        return method
    following: Method = replace(method, state=MappingProxyType(dict(update.state)))  # type: ignore[type-var]  # a dataclass
    return following


METHODS: dict[str, Any] = {
    method.name: method for method in (FlashReinforce, SAO, BPCO, Reinforce, GRPO, RAE, KLPO, BPO)
}
"""Every method, by the name that settings and reports use."""


def by_name(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """The method of that name with these options; an unknown name or option is refused with what there is."""
    if name not in METHODS:
        raise SettingsError(f"method {name!r}: expected one of {', '.join(sorted(METHODS))}; mend train.method")
    kind = METHODS[name]
    known = [option.name for option in fields(kind)]
    unknown = sorted(set(options or {}) - set(known))
    if unknown:
        raise SettingsError(
            f"method {name}: unknown option {unknown[0]!r}; expected among {', '.join(known)}; mend or remove it"
        )
    # A settings file has lists where an option is a pair.
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in (options or {}).items()}
    method: Method = kind(**given)
    return method
