"""What an update did to a sequence."""

from schemas.columns import Column, Kind, Table

REPLAYS = Table(
    "replays",
    "training sequence in one optimizer update",
    "train",
    ("run_id", "step", "trace_id", "sequence_index"),
    (
        Column("run_id", Kind.STRING, "The run."),
        Column("step", Kind.INT64, "Optimizer update within the run, from 0.", "updates"),
        Column("trace_id", Kind.STRING, "The trace."),
        Column("trace_revision", Kind.INT32, "The revision that was read."),
        Column("sequence_index", Kind.INT32, "The sequence."),
        Column("method", Kind.STRING, "The update method."),
        Column("policy_lag", Kind.INT64, "Updates between the writing policy and the policy updated.", "updates"),
        Column("reward", Kind.FLOAT64, "Reward of the trace."),
        Column("advantage", Kind.FLOAT64, "Mean advantage over its action tokens."),
        Column("drift", Kind.FLOAT64, "Mean Bernoulli KL of the whole trace when it was updated.", "nats"),
        Column("in_trust", Kind.BOOL, "Whether the method let the trace move the policy."),
        Column("mean_ratio", Kind.FLOAT64, "Mean importance ratio over action tokens."),
        Column("max_ratio", Kind.FLOAT64, "Largest importance ratio."),
        Column("masked_share", Kind.FLOAT64, "Share of action tokens whose coefficient is 0.", "share"),
        Column("positive_mass", Kind.FLOAT64, "Sum of its positive coefficients."),
        Column("negative_mass", Kind.FLOAT64, "Sum of its negative coefficients, as a negative number."),
        Column("replayed_at", Kind.TIME, "When the update was committed.", "UTC"),
    ),
)
