"""Policy versions, and what a policy makes of a logged sequence."""

from schemas.columns import Column, Kind, Table

POLICIES = Table(
    "policies",
    "state of one policy version (the latest `revision` is current)",
    "train",
    ("policy_version", "revision"),
    (
        Column("policy_version", Kind.STRING, "Name of the version, as served."),
        Column("revision", Kind.INT32, "0 when registered; higher rows supersede lower ones."),
        Column("optimizer_step", Kind.INT64, "Optimizer updates since the base weights.", "updates"),
        Column("parent_version", Kind.STRING, "The version it was trained from.", nullable=True),
        Column("base_uri", Kind.STRING, "Folder of the base model."),
        Column(
            "checkpoint_uri", Kind.STRING, "Folder of its adapter or model; null for the base itself.", nullable=True
        ),
        Column("checkpoint_sha256", Kind.STRING, "SHA-256 over the weight files.", nullable=True),
        Column("method", Kind.STRING, "Update method that made it.", nullable=True),
        Column("run_id", Kind.STRING, "Run that made it; null when it came from the settings.", nullable=True),
        Column("state", Kind.STRING, "candidate, held, current or retired."),
        Column("created_at", Kind.TIME, "When the version was first registered.", "UTC"),
        Column("recorded_at", Kind.TIME, "When this state was recorded.", "UTC"),
    ),
)

RESCORED = Table(
    "rescored",
    "training sequence under one policy version",
    "train",
    ("trace_id", "trace_revision", "sequence_index", "policy_version"),
    (
        Column("trace_id", Kind.STRING, "The trace."),
        Column("trace_revision", Kind.INT32, "The trace's revision that was scored."),
        Column("sequence_index", Kind.INT32, "The sequence."),
        Column("policy_version", Kind.STRING, "The policy that scored it."),
        Column("behavior_version", Kind.STRING, "The policy that wrote it.", nullable=True),
        Column("logprobs", Kind.FLOAT32S, "One per token of the sequence, null where `action_mask` is false.", "nats"),
        Column("num_action_tokens", Kind.INT32, "Tokens that the statistics are over.", "tokens"),
        Column("mean_bernoulli_kl", Kind.FLOAT64, "Drift: mean Bernoulli KL over action tokens.", "nats"),
        Column("mean_abs_log_ratio", Kind.FLOAT64, "Mean absolute log ratio over action tokens.", "nats"),
        Column("k1", Kind.FLOAT64, "Mean of minus the log ratio.", "nats"),
        Column("k2", Kind.FLOAT64, "Mean of half the squared log ratio.", "nats"),
        Column("k3", Kind.FLOAT64, "Mean of ratio minus 1 minus log ratio.", "nats"),
        Column("m2", Kind.FLOAT64, "Mean squared log ratio.", "nats^2"),
        Column("max_ratio", Kind.FLOAT64, "Largest importance ratio."),
        Column("sequence_log_ratio", Kind.FLOAT64, "Sum of the log ratios.", "nats"),
        Column("run_id", Kind.STRING, "Run that scored it."),
        Column("scored_at", Kind.TIME, "When it was scored.", "UTC"),
    ),
)

EVALUATIONS = Table(
    "evaluations",
    "estimate about one policy",
    "train",
    ("run_id", "policy_version", "name"),
    (
        Column("run_id", Kind.STRING, "Run that made the estimate."),
        Column("policy_version", Kind.STRING, "The policy it is about."),
        Column("name", Kind.STRING, "What was estimated, such as heldout_uplift."),
        Column("status", Kind.STRING, "ok, or not_measured with the reason in `sentence`."),
        Column("value", Kind.FLOAT64, "The estimate.", nullable=True),
        Column("lower", Kind.FLOAT64, "Lower end of its 95% interval.", nullable=True),
        Column("upper", Kind.FLOAT64, "Upper end of its 95% interval.", nullable=True),
        Column("num_traces", Kind.INT64, "Traces behind it."),
        Column("ess_share", Kind.FLOAT64, "Effective sample size over the number of traces.", nullable=True),
        Column("sentence", Kind.STRING, "What it says, in one sentence."),
        Column("evaluated_at", Kind.TIME, "When it was made.", "UTC"),
    ),
)
