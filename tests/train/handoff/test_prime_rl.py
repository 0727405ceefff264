"""The file that prime-rl's trainer reads: its fields by place, and nothing at a masked token that could be a number."""

import msgspec
import numpy as np

from tests.train.handoff.handed import TWO_TURNS, admitted, three
from tests.train.logged import logged
from train.handoff.carried import Carried, carried
from train.handoff.prime_rl import MicroBatch, micro_batch, write_batch
from train.methods.baselines import Reinforce

# prime-rl 559b44772e471d1538537b8805cc77f3824a5e64, src/prime_rl/transports/rollouts/types.py, class MicroBatch.
FIELDS = [
    "input_ids",
    "loss_mask",
    "advantages",
    "inference_logprobs",
    "position_ids",
    "sequence_lengths",
    "temperatures",
    "env_names",
    "seq_lens",
    "ref_logprobs",
    "routed_experts",
    "mm_kwargs",
    "mm_token_type_ids",
    "rl_weights",
    "ce_weights",
    "ref_kl_weights",
]


def one(advantage=0.5):
    """A trace of two turns with a tool between them."""
    trace = admitted(TWO_TURNS, reward=1.0)
    return micro_batch(Carried(trace=trace, sequence=TWO_TURNS, group=0, advantage=advantage))


def test_the_fields_stand_where_prime_rl_has_them():
    """The struct travels as an array, so their order is the format."""
    assert MicroBatch.__struct_config__.array_like
    assert list(MicroBatch.__struct_fields__) == FIELDS
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(one()))
    assert sent[9:] == [None] * 7
    assert sent[FIELDS.index("seq_lens")] == sent[FIELDS.index("sequence_lengths")] == [6]


def test_a_tool_token_carries_no_loss_and_no_number_of_its_own():
    """Prompt 5 6, reply 7 8, tool 9, reply 10."""
    sent = one()
    assert sent.input_ids == [5, 6, 7, 8, 9, 10]
    assert sent.loss_mask == [False, False, True, True, False, True]
    assert sent.advantages == [0, 0, 0.5, 0.5, 0, 0.5]
    assert sent.inference_logprobs == [0, 0, -0.5, -0.25, 0, -1.5]
    assert sent.position_ids == list(range(6))
    assert sent.temperatures == [1.0] * 6


def test_a_log_probability_comes_back_bit_for_bit():
    """float32 travels as float64."""
    odd = np.float32(-0.1)
    sequence = logged([5, 6], [1], behavior=odd)
    sent = micro_batch(Carried(trace=admitted(sequence, reward=1.0), sequence=sequence, group=0, advantage=1.0))
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=MicroBatch)
    assert np.float32(back.inference_logprobs[1]).tobytes() == odd.tobytes()


def test_a_batch_is_a_step_and_steps_begin_at_one(tmp_path):
    """Batch 4 is what the trainer reads fifth: rollouts/step_5/rank_0.bin."""
    rows = carried(three(), Reinforce(), "token_mean")
    path = write_batch(tmp_path, 4, rows)
    assert path == tmp_path / "rollouts" / "step_5" / "rank_0.bin"
    batches = msgspec.msgpack.decode(path.read_bytes(), type=list[MicroBatch])
    assert [len(batch.input_ids) for batch in batches] == [6, 4, 4, 2]
