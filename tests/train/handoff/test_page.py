"""The code of the page, and the trainers' own functions on what it makes of an export, where they are installed."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from schemas.errors import UsageError
from tests.train.handoff.handed import three
from tests.train.handoff.test_agreements import RULES, moved
from train.handoff import jsonl, trl, verl
from train.handoff.agreements import agreement, require_form
from train.handoff.carried import carried, checked_batch
from train.methods.baselines import Reinforce
from train.methods.flash_reinforce import FlashReinforce

PAGE = Path(__file__).parents[3] / "docs" / "export.md"


def run(needle, **given):
    """What the code block of the page with that word in it leaves behind."""
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    (code,) = [block for block in found if needle in block]
    exec(compile(code, str(PAGE), "exec"), given)  # noqa: S102 - the page is ours
    return given


def shapes_of(rows):
    """One batch at temperature 1."""
    return SimpleNamespace(num_sequences=(len(rows),), temperatures=(1.0,), num_positions=6)


def test_the_page_reads_lines_as_a_batch(tmp_path):
    """Three traces in four sequences."""
    jsonl.write_batch(tmp_path, 0, three())
    assert run("jsonl", folder=tmp_path)["batch"].trace_ids == ("two-turns", "forked", "short")


def test_the_page_shows_the_refusal_that_is_printed():
    """Word for word."""
    with pytest.raises(UsageError) as refused:
        require_form("prime-rl", FlashReinforce())
    assert f"tracemill: {refused.value}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", RULES["trl"], ids=str)
@pytest.mark.parametrize("aggregation", ["token_mean", "trace_mean"])
def test_trl_s_own_loss_on_the_rows_has_our_gradient(tmp_path, rule, aggregation):
    """RolloutSample, TreeRow, collator and compute_loss of TRL; the model's log-probabilities are given."""
    pytest.importorskip("trl.experimental.async_grpo")
    from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer, DataCollatorForRollout
    from trl.experimental.async_grpo.packing import TreeRow

    method, traces = Reinforce(correction=rule, aggregation=aggregation), three()
    rows = carried(traces, method, aggregation)
    trl.write_batch(tmp_path, 0, rows)
    buffer = run("ReplayWorker")["ReplayWorker"](tmp_path).rollout_buffer
    packed, names = TreeRow(), ("input_ids", "completion_mask", "old_log_probs", "advantage", "group_id", "metrics")
    for _ in rows:
        sample = buffer.get()
        packed.add({name: getattr(sample, name) for name in names})
    inputs = DataCollatorForRollout(pad_token_id=0)([[packed]])

    batch = checked_batch(traces)
    logprobs = moved(batch, 3)
    place = inputs["token_index"][0]
    leaf = torch.zeros(len(inputs["input_ids"][0]), dtype=torch.float64)
    # A token that several sequences share is scored once: the last one's number holds for all of them.
    leaf[place] = logprobs
    leaf.requires_grad_()
    settings = agreement("trl", method, shapes_of(rows)).settings
    trainer = SimpleNamespace(
        aux_loss_enabled=False,
        epsilon_low=settings["epsilon"],
        epsilon_high=settings["epsilon_high"],
        current_gradient_accumulation_steps=settings["gradient_accumulation_steps"],
        accelerator=SimpleNamespace(num_processes=1, reduce=lambda told, **_: told, gather=lambda told: told[None]),
        _metrics={"train": DataCollatorForRollout(pad_token_id=0).metrics},
        _step_forward_tokens=0.0,
        _step_trained_tokens=0.0,
        _step_seq_len_weighted=0.0,
        _step_samples=0.0,
        _step_forward_s=0.0,
    )

    def model(**_):
        return SimpleNamespace(log_probs=leaf[None], entropy=torch.zeros_like(leaf)[None])

    (gradient,) = torch.autograd.grad(AsyncGRPOTrainer.compute_loss(trainer, model, inputs), leaf)
    ours = method.update(batch.with_logprobs(leaf.detach()[place])).coefficients
    expected = torch.zeros_like(leaf).index_add(0, place, ours)
    # TRL holds advantages and logged numbers in float32.
    torch.testing.assert_close(-gradient, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", RULES["verl"], ids=str)
@pytest.mark.parametrize("aggregation", ["token_mean", "trace_mean"])
def test_verl_s_own_loss_on_the_rows_has_our_gradient(tmp_path, rule, aggregation):
    """DataProto, ActorConfig and the registered losses of verl; every setting is one that its configs know."""
    pytest.importorskip("verl")
    from verl.trainer.config.algorithm import RolloutCorrectionConfig
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig, PolicyLossConfig

    method, traces = Reinforce(correction=rule, aggregation=aggregation), three()
    rows = carried(traces, method, aggregation)
    file = verl.write_batch(tmp_path, 0, rows)
    data = run("data_proto")["data_proto"](file, pad_token_id=0, temperature=1.0).batch
    settings = agreement("verl", method, shapes_of(rows)).settings

    def under(prefix):
        return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}

    actor = under("actor_rollout_ref.actor.")
    mode = actor.pop("policy_loss.loss_mode")
    correction = RolloutCorrectionConfig(**under("algorithm.rollout_correction."))
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        policy_loss=PolicyLossConfig(loss_mode=mode, rollout_correction=correction),
        **actor,
    )
    batch, mask = checked_batch(traces), data["response_mask"].bool()
    logprobs = moved(batch, 3)
    scored = torch.zeros(mask.shape, dtype=torch.float64)
    scored[mask] = logprobs
    scored.requires_grad_()
    loss, _ = get_policy_loss_fn(mode)(
        old_log_prob=data["old_log_probs"].double(),
        log_prob=scored,
        advantages=data["advantages"].double(),
        response_mask=data["response_mask"],
        loss_agg_mode=actor["loss_agg_mode"],
        config=config,
    )
    (gradient,) = torch.autograd.grad(loss, scored)
    ours = method.update(batch.with_logprobs(logprobs)).coefficients
    # verl holds advantages in float32.
    torch.testing.assert_close(-gradient[mask], ours, rtol=1e-6, atol=1e-9)
    assert not gradient[~mask].any()
