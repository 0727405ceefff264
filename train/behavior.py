"""The policies that wrote the traces, to be asked what else they might have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from schemas.errors import BatchError
from train.logprobs import BehaviorStates, action_tokens
from train.packing import Pack
from train.policy import Policy
from train.registry import Weights


class BehaviorPolicies:
    """One version after another, as adapters over the base weights of the policy in training, which are held once.

    Where that policy is trained whole, or a version is a whole model, they have weights of their own.

    What they say differs from what was served by the noise of another engine (kernels, number types, quantisation): the
    logged log-probability of a sampled token stays the one in its ratio, and these serve expectations alone.
    """

    def __init__(self, twin: Policy, versions: Mapping[str, Weights]) -> None:
        self.policy = twin
        """The one that becomes each version in turn; its head is that of all."""
        self._versions = versions
        self._in_use: str | None = None

    def states(self, pack: Pack) -> BehaviorStates:
        """What is made of the action tokens of `pack`, each under the version that wrote its sequence.

        One forward pass of the whole pack for each version in it. Refused for a sequence of an unknown version, and
        for versions over several whole models, whose heads differ.
        """
        versions = [self._known(sequence.trace_id, sequence.behavior_version) for sequence in pack.sequences]
        lengths = torch.tensor([sequence.num_action_tokens for sequence in pack.sequences])
        self._require_one_head(versions)
        numbers = {version: number for number, version in enumerate(dict.fromkeys(versions))}
        owners = torch.repeat_interleave(torch.tensor([numbers[version] for version in versions]), lengths)
        slots = action_tokens(pack).to(self.policy.device).slots
        states: Tensor | None = None
        for version, number in numbers.items():
            self._use(version)
            with torch.inference_mode():
                hidden = self.policy.hidden_states(pack)[slots]
            own = (owners == number).to(hidden.device)[:, None]
            states = hidden if states is None else torch.where(own, hidden, states)
        if states is None:
            raise AssertionError("a pack has a sequence")
        # Out of inference mode, so that a backward pass may read it.
        return self.policy.head(states.clone())

    def _require_one_head(self, versions: Sequence[str]) -> None:
        bases = {self._versions[version].base: version for version in versions}
        if len(bases) > 1:
            raise BatchError(
                f"versions {', '.join(sorted(bases.values()))} are over different models; expected one model a pack, "
                "because it is asked with one head; choose a centering that needs no weights, or a smaller "
                "train.token_budget"
            )

    def _known(self, trace_id: str, version: str | None) -> str:
        if version is None or version not in self._versions:
            raise BatchError(
                f"trace {trace_id}: written by {version or 'no version that the log names'}; expected one of "
                f"{', '.join(self._versions)}, whose weights can be asked; list it under model.policies, or choose a "
                "centering that needs no weights"
            )
        return version

    def _use(self, version: str) -> None:
        if self._in_use != version:
            self.policy.become(self._versions[version])
            self._in_use = version
