"""How an optimizer update went."""

from schemas.columns import Column, Kind, Table

UPDATES = Table(
    "updates",
    "optimizer update of one training run",
    "train",
    ("run_id", "step"),
    (
        Column("run_id", Kind.STRING, "The run."),
        Column("step", Kind.INT64, "Optimizer update within the run, from 0.", "updates"),
        Column("method", Kind.STRING, "The update method."),
        Column("moved", Kind.BOOL, "Whether the weights were changed: not when every coefficient is 0."),
        Column("is_critic_warming_up", Kind.BOOL, "Whether the critic learned from the batch alone."),
        Column("num_traces", Kind.INT64, "Traces that were read."),
        Column("num_in_trust", Kind.INT64, "Of those, traces that the method let move the policy."),
        Column("in_trust_share", Kind.FLOAT64, "Their share; null while a critic warms up.", "share", nullable=True),
        Column("mean_drift", Kind.FLOAT64, "Mean drift of the traces; null without ratios.", "nats", nullable=True),
        Column(
            "masked_token_share",
            Kind.FLOAT64,
            "Share of action tokens that the method masked, clipped or dropped with their trace; null where it weighs "
            "none.",
            "share",
            nullable=True,
        ),
        Column("loss", Kind.FLOAT64, "Minus the sum of coefficients times logprobs; null unless moved.", nullable=True),
        Column("grad_norm", Kind.FLOAT64, "Gradient norm before the clip; null unless moved.", nullable=True),
        Column("learning_rate", Kind.FLOAT64, "Rate of the update."),
        Column("mean_entropy", Kind.FLOAT64, "Mean entropy of the policy at the action tokens.", "nats", nullable=True),
        Column(
            "mean_surprise",
            Kind.FLOAT64,
            "Minus the mean logged log-probability of the same tokens: the entropy of what wrote them, as sampled.",
            "nats",
            nullable=True,
        ),
        Column("critic_loss", Kind.FLOAT64, "Loss of the critic; null without one.", nullable=True),
        Column(
            "critic_explained_variance",
            Kind.FLOAT64,
            "Explained variance of the critic's values before it learned from the batch; null without a critic.",
            nullable=True,
        ),
        Column("num_tokens", Kind.INT64, "Tokens of the sequences, shared ones counted in each."),
        Column("num_slots", Kind.INT64, "Tokens that the model computed."),
        Column("tokens_per_second", Kind.FLOAT64, "Tokens over the wall time of the update."),
        Column(
            "mfu",
            Kind.FLOAT64,
            "Share of the device's peak that the arithmetic of the model came to; null where the peak is unknown.",
            "share",
            nullable=True,
        ),
        Column("replayed_at", Kind.TIME, "The clock of the run that made it.", "UTC"),
    ),
)
