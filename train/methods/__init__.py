"""Update methods on logged traces: each a frozen object with cited defaults and one `update`."""

from train.methods.baselines import GRPO, RAE, Reinforce
from train.methods.bpco import BPCO
from train.methods.bpo import BPO
from train.methods.catalog import METHODS, Method, after, by_name
from train.methods.flash_reinforce import FlashReinforce
from train.methods.klpo import KLPO
from train.methods.sao import SAO
from train.methods.update import SequenceUpdate, TraceUpdate, Update

__all__ = [
    "BPCO",
    "BPO",
    "GRPO",
    "KLPO",
    "METHODS",
    "RAE",
    "SAO",
    "FlashReinforce",
    "Method",
    "Reinforce",
    "SequenceUpdate",
    "TraceUpdate",
    "Update",
    "after",
    "by_name",
]
