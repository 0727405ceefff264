"""What was decided about a trace, and what was measured about a night."""

from schemas.columns import Column, Kind, Table

VERDICTS = Table(
    "verdicts",
    "decision on one trace by one gate in one run",
    "validate",
    ("run_id", "trace_id"),
    (
        Column("run_id", Kind.STRING, "The run."),
        Column("trace_id", Kind.STRING, "The trace."),
        Column("trace_revision", Kind.INT32, "The revision that was judged."),
        Column("verdict", Kind.STRING, "admitted, quarantined or pending."),
        Column(
            "reasons", Kind.STRINGS, "All reasons that apply, the first in gate order leading; empty when admitted."
        ),
        Column("stage", Kind.STRING, "The waterfall stage that decided; admitted where none did."),
        Column("reward", Kind.FLOAT64, "Reward by the settings' rule; null while none has arrived.", nullable=True),
        Column(
            "drift", Kind.FLOAT64, "Mean Bernoulli KL under the current policy; null if not rescored.", nullable=True
        ),
        Column("policy_lag", Kind.INT64, "Updates between writing and the current policy.", "updates", nullable=True),
        Column("age_hours", Kind.FLOAT64, "Hours between the end of the trace and the run's clock.", "hours"),
        Column("gate_sha256", Kind.STRING, "SHA-256 of the gate's settings."),
        Column("decided_at", Kind.TIME, "The run's clock.", "UTC"),
    ),
)

FINDINGS = Table(
    "findings",
    "measured check or scan of one run",
    "validate",
    ("run_id", "name", "subject"),
    (
        Column("run_id", Kind.STRING, "The run."),
        Column("night", Kind.STRING, "The run's date, YYYY-MM-DD."),
        Column("section", Kind.STRING, "admission, structure, logprobs, canary, staleness, rewards, judge, ..."),
        Column("name", Kind.STRING, "What was measured, such as usable_logprob_share."),
        Column("subject", Kind.STRING, "Of what: all, or a version, source or workload."),
        Column("value", Kind.FLOAT64, "The measurement; null when not measured.", nullable=True),
        Column("lower", Kind.FLOAT64, "Lower end of its 95% interval.", nullable=True),
        Column("upper", Kind.FLOAT64, "Upper end of its 95% interval.", nullable=True),
        Column("num_observations", Kind.INT64, "Observations behind it."),
        Column("threshold", Kind.FLOAT64, "The bound it was compared with.", nullable=True),
        Column("comparison", Kind.STRING, "below or above: the side of the threshold that is bad.", nullable=True),
        Column("severity", Kind.STRING, "What crossing the bound means: stop, hold, warn or info."),
        Column("status", Kind.STRING, "ok, warn, hold, stop or not_measured."),
        Column("unit", Kind.STRING, "Unit of the value."),
        Column("sentence", Kind.STRING, "What it says, in one sentence with the figures."),
        Column("fix", Kind.STRING, "What to do when it is not ok."),
        Column("measured_at", Kind.TIME, "The run's clock.", "UTC"),
    ),
)
