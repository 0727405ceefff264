"""The policies that wrote the traces, to be asked what else they might have said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from schemas.errors import BatchError
from train.logprobs import action_tokens
from train.packing import Pack
from train.policy import Policy


class BehaviorPolicies:
    """One adapter after another over the base weights of the policy in training, which are held once.

    What they say differs from what was served by the noise of another engine (kernels, number types, quantisation): the
    logged log-probability of a sampled token stays the one in its ratio, and these serve expectations alone.
    """

    def __init__(self, twin: Policy, adapters: Mapping[str, Path | None]) -> None:
        self._twin = twin
        self._adapters = adapters
        self._in_use: str | None = None

    def hidden_states(self, pack: Pack) -> Tensor:
        """[A, H] states that predict the action tokens of `pack`, each under the version that wrote its sequence.

        One forward pass of the whole pack for each version in it. Refused for a sequence of an unknown version.
        """
        versions = [self._known(sequence.trace_id, sequence.behavior_version) for sequence in pack.sequences]
        lengths = torch.tensor([sequence.num_action_tokens for sequence in pack.sequences])
        numbers = {version: number for number, version in enumerate(dict.fromkeys(versions))}
        owners = torch.repeat_interleave(torch.tensor([numbers[version] for version in versions]), lengths)
        slots = action_tokens(pack).to(self._twin.device).slots
        states: Tensor | None = None
        for version, number in numbers.items():
            self._use(version)
            with torch.inference_mode():
                hidden = self._twin.hidden_states(pack)[slots]
            own = (owners == number).to(hidden.device)[:, None]
            states = hidden if states is None else torch.where(own, hidden, states)
        if states is None:
            raise AssertionError("a pack has a sequence")
        return states.clone()  # out of inference mode, so that it may be saved for backward

    def _known(self, trace_id: str, version: str | None) -> str:
        if version is None or version not in self._adapters:
            raise BatchError(
                f"trace {trace_id}: written by {version or 'no version that the log names'}; expected one of "
                f"{', '.join(self._adapters)}, whose weights can be asked; list it under model.policies, or choose a "
                "centering that needs no weights"
            )
        return version

    def _use(self, version: str) -> None:
        if self._in_use != version:
            self._twin.use(self._adapters[version])
            self._in_use = version
