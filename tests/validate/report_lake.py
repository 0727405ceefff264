"""Lakes for the report: the small night of the warehouse tests with findings, and one with too much of everything."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.warehouse.night import fill
from tests.warehouse.rows import (
    CLOCK,
    call,
    hours_before,
    outcome,
    policy,
    reject,
    replay,
    rescored,
    run,
    source_file,
    span,
    trace,
    update,
    verdict,
)
from validate.waterfall import STAGES

if TYPE_CHECKING:
    from warehouse.lake import Lake

SETTINGS = {
    "gate": {"max_drift": 0.003, "max_lag": 8, "max_age_hours": None},
    "reward": {"name": "refund_correct", "maturity_hours": 36.0, "lowest": 0.0, "highest": 1.0},
    "train": {"seed": 7},
}
"""What the report reads of the settings."""


def finding(name: str, value: float | None, **changes: Any) -> dict[str, Any]:
    """One row of `findings`."""
    row = {
        "run_id": "r1",
        "night": "2026-11-28",
        "section": "logprobs",
        "name": name,
        "subject": "all",
        "value": value,
        "num_observations": 5,
        "severity": "info",
        "status": "ok" if value is not None else "not_measured",
        "unit": "share",
        "sentence": f"{name} in figures",
        "fix": f"mend {name}",
        "measured_at": CLOCK,
    }
    return row | changes


def warned(name: str, value: float | None, **changes: Any) -> dict[str, Any]:
    """A finding below a bound at which it warns."""
    held = {"threshold": 0.97, "comparison": "below", "severity": "warn", "status": "warn"}
    return finding(name, value, **(held | changes))


def append(lake: Lake, table: str, *rows: dict[str, Any]) -> None:
    """Append the rows in one transaction."""
    with lake.transaction() as transaction:
        transaction.append(table, list(rows))


def fill_night(lake: Lake) -> None:
    """The five traces of `tests.warehouse.night`, with settings, findings, and a snapshot taken before the verdicts."""
    fill(lake)
    changes = {"settings_json": json.dumps(SETTINGS), "lake_snapshot": lake.snapshot()}
    settled = {"decision": "go", "sentence": "GO: 2 of 5 traces are admitted.", "base_policy": "v109"}
    append(lake, "runs", run("r1", revision=9, new_policy="v110", **settled, **changes))
    append(
        lake,
        "findings",
        warned("usable_logprob_share", 0.8, lower=0.4, upper=0.96),
        warned("usable_logprob_share", 0.9, run_id="r0", night="2026-11-27"),
        finding("action_token_share", 0.25, section="structure"),
        finding("reward_mean", 2 / 3, section="rewards", lower=0.1, upper=1.0, num_observations=3, unit="reward"),
        finding("reward_arrived_by", 0.5, section="rewards", subject="hours:6"),
        finding("reward_arrived_by", 0.75, section="rewards", subject="hours:24"),
        finding("judge_tpr", None, section="judge", sentence="no label on a judged trace"),
        finding("judge_pass_rate", 0.6, section="judge"),
    )


HOSTILE = "<i>&\"'\u202e" * 40
"""A name that wants to be markup, reorders its line and does not end."""
_CODES = [(stage.name, code) for stage in STAGES for code in stage.reasons]


def fill_crowded(lake: Lake, num_traces: int = 1500) -> None:
    """More versions, workloads, files, scorers, reasons, findings and updates than a report can list, hostile names."""
    versions = [f"v{number}{HOSTILE}" for number in range(300)]
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("calls", "traces", "verdicts", "rescored", "outcomes")
    }
    for number in range(num_traces):
        _add_trace(rows, number, versions[number % len(versions)])
    for table, found in rows.items():
        append(lake, table, *found)
    append(lake, "policies", *(policy(name, 100 + i, "retired") for i, name in enumerate(versions)))
    files = [source_file(f"{HOSTILE}/{i}.jsonl", len(range(i, num_traces, 90)), rejects=5) for i in range(90)]
    append(lake, "source_files", *files)
    append(lake, "rejects", *(reject(f"{HOSTILE}/{i // 5}.jsonl", -1 - i % 5) for i in range(450)))
    snapshot = {"lake_snapshot": lake.snapshot(), "settings_json": json.dumps(SETTINGS), "base_policy": versions[0]}
    nights = [(f"r{day}", f"2026-11-{day:02d}") for day in range(9, 29)]
    append(lake, "runs", *(run(name, night=night, **snapshot) for name, night in nights))
    for name, night in nights:
        append(lake, "findings", *(_crowded_finding(number, run_id=name, night=night) for number in range(200)))
    admitted = [row["trace_id"] for row in rows["verdicts"] if row["verdict"] == "admitted"]
    append(lake, "replays", *(replay(name, run_id="r28", step=i) for i, name in enumerate(admitted)))
    append(lake, "updates", *(_crowded_update(i) for i in range(len(admitted))))


def _add_trace(rows: dict[str, list[dict[str, Any]]], number: int, version: str) -> None:
    name, began = f"{number}{HOSTILE}", CLOCK - timedelta(hours=number)
    stage, code = _CODES[number % len(_CODES)] if number % 4 else ("admitted", None)
    whose = {"user_hash": f"u{number % 700}", "workload": f"{number % 90}{HOSTILE}", "temperature": 1 + number / 1e3}
    spans = [span(f"c{number}", 2, 4)]
    rows["traces"].append(
        trace(name, [-0.5, -1.0], version=version, spans=spans, started_at=began, ended_at=began, **whose)
    )
    rows["calls"].append(call(f"c{number}", name, uri=f"{HOSTILE}/{number % 90}.jsonl"))
    rows["rescored"].append(
        rescored(name, [None, None, -0.5, -1.0], 10 ** (-6 + number % 60 / 10), behavior_version=version)
    )
    score = {"source": f"{number % 50}{HOSTILE}", "observed_time": hours_before(1)}
    rows["outcomes"].append(outcome(f"o{number}", name, float(number % 2), **score))
    kind = "admitted" if code is None else "quarantined"
    drift = {"reward": number % 2 / 1.0, "drift": 10 ** (-6 + number % 60 / 10), "policy_lag": number % 9}
    reasons = [] if code is None else [code]
    rows["verdicts"].append(verdict(name, kind, *reasons, run_id="r28", stage=stage, **drift))


def _crowded_update(number: int) -> dict[str, Any]:
    """Figures that need all their digits."""
    names = ("in_trust_share", "mean_drift", "loss", "grad_norm", "mean_entropy", "critic_explained_variance")
    figures = {name: 10 ** (-place) / (number + 3) for place, name in enumerate(names)}
    return update(number, run_id="r28", method=HOSTILE, is_critic_warming_up=number < 9, **figures)


def _crowded_finding(number: int, **changes: Any) -> dict[str, Any]:
    told = {
        "sentence": HOSTILE * 9,
        "fix": HOSTILE * 9,
        "subject": f"version:{number}{HOSTILE}",
        "lower": 0.1,
        "upper": 0.9,
    }
    return warned("usable_logprob_share", 0.5 + number / 1e3, **told, **changes)
