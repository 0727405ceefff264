"""The columns of a DataProto of verl."""

import pyarrow.parquet as pq
import pytest

from tests.train.handoff.handed import FORKED, SHORT, TWO_TURNS, admitted, three
from tests.train.logged import logged
from train.handoff.carried import Carried, carried
from train.handoff.verl import SCHEMA, row_of, write_batch
from train.methods.baselines import Reinforce

# verl 0.9.1: AgentLoopOutput.as_dict (verl/experimental/agent_loop/agent_loop.py) has int64 prompts, responses and
# response_mask, and float32 rollout_log_probs; RayPPOTrainer.fit adds uid, token_level_scores and advantages.
TYPES = {
    "prompts": "int64",
    "responses": "int64",
    "response_mask": "int64",
    "rollout_log_probs": "float",
    "token_level_scores": "float",
    "advantages": "float",
}


def test_the_columns_are_those_of_a_data_proto(tmp_path):
    """With verl's types."""
    table = pq.read_table(write_batch(tmp_path, 0, carried(three(), Reinforce(), "token_mean")))
    assert table.schema == SCHEMA
    assert {name: str(SCHEMA.field(name).type.value_type) for name in SCHEMA.names[:-1]} == TYPES
    assert str(SCHEMA.field("uid").type) == "string"


def test_the_prompt_ends_at_the_first_action_and_tools_are_in_the_response():
    """Prompt 5 6, reply 7 8, tool 9, reply 10; the reward is where verl finds it, on the last action."""
    row = row_of(Carried(trace=admitted(TWO_TURNS, reward=1.0), sequence=TWO_TURNS, group=3, advantage=0.5), 7)
    assert (row["prompts"], row["responses"], row["response_mask"]) == ([5, 6], [7, 8, 9, 10], [1, 1, 0, 1])
    assert row["rollout_log_probs"].tolist() == [-0.5, -0.25, 0, -1.5]
    assert row["token_level_scores"].tolist() == [0, 0, 0, 1]
    assert row["advantages"].tolist() == [0.5, 0.5, 0, 0.5]
    assert row["uid"] == "7-3"


def test_the_reward_of_a_trace_that_ends_with_a_tool_is_on_its_last_action():
    """Verl's estimators read nothing off the mask."""
    sequence = logged([5, 7, 9, 9], [1])
    row = row_of(Carried(trace=admitted(sequence, reward=2.0), sequence=sequence, group=0, advantage=1.0), 0)
    assert row["token_level_scores"].tolist() == [2, 0, 0]


@pytest.mark.parametrize("ask", [None, "refund"])
def test_a_uid_is_an_ask_within_a_batch(ask):
    """A trace whose ask is unknown is alone."""
    traces = [admitted(*each, reward=0.0, ask=ask) for each in ((TWO_TURNS,), FORKED, (SHORT,))]
    uids = [row_of(row, 0)["uid"] for row in carried(traces, Reinforce(), "token_mean")]
    assert uids == (["0-0"] * 4 if ask else ["0-0", "0-1", "0-1", "0-2"])
