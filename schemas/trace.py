"""One training sequence of one trace."""

from schemas.columns import Column, Kind, Table

TRACES = Table(
    "traces",
    "training sequence of one trace (the highest `trace_revision` of a trace is current)",
    "ingest (assemble)",
    ("trace_id", "trace_revision", "sequence_index"),
    (
        Column("trace_id", Kind.STRING, "The trace: one try with a score."),
        Column("trace_revision", Kind.INT32, "0 at first; higher when a late call changed the trace."),
        Column("sequence_index", Kind.INT32, "Position among the trace's sequences, by time of first owned span."),
        Column("num_sequences", Kind.INT32, "Sequences of this trace."),
        Column("num_calls", Kind.INT32, "Calls of this trace that were logged."),
        Column("branch_kind", Kind.STRING, "main, fork, subagent, compaction or abandoned."),
        Column("ask_id", Kind.STRING, "What was asked.", nullable=True),
        Column("session_id", Kind.STRING, "Conversation or user session.", nullable=True),
        Column("user_hash", Kind.STRING, "Salted hash of the user.", nullable=True),
        Column("workload", Kind.STRING, "Kind of traffic.", nullable=True),
        Column("token_ids", Kind.INT32S, "All tokens, prompt and sampled, in the order the engine saw them."),
        Column(
            "token_logprobs",
            Kind.FLOAT32S,
            "Behavior log-probability on sampled spans, null elsewhere and where the log has no usable number.",
            "nats",
        ),
        Column(
            "action_mask",
            Kind.BOOLS,
            "True on tokens that the behavior policy sampled, that this sequence owns and whose call has no fault.",
        ),
        Column("spans", Kind.SPANS, "Sampled spans: call, start, end, owned by this sequence, fault of the call."),
        Column("version_spans", Kind.VERSION_SPANS, "Which policy version sampled which tokens."),
        Column("prompt_length", Kind.INT32, "Tokens before the first sampled one.", "tokens"),
        Column("num_action_tokens", Kind.INT32, "True entries of `action_mask`.", "tokens"),
        Column("logprob_kind", Kind.STRING, "raw, temperature, processed or unknown."),
        Column(
            "logprob_exact",
            Kind.BOOL,
            "Whether the numbers of its own calls are the sampler's distribution exactly: support whole, kind known.",
        ),
        Column("temperature", Kind.FLOAT64, "Sampling temperature; null when unknown or mixed.", nullable=True),
        Column("top_p", Kind.FLOAT64, "Nucleus bound; null when unknown; the lowest of its calls.", nullable=True),
        Column("top_k", Kind.INT32, "Top-k bound, -1 when off; null when unknown.", nullable=True),
        Column("engine", Kind.STRING, "Serving engine.", nullable=True),
        Column("deployment", Kind.STRING, "Deployment named by the log.", nullable=True),
        Column(
            "policy_version_min", Kind.STRING, "First policy version of its tokens; null when unknown.", nullable=True
        ),
        Column(
            "policy_version_max", Kind.STRING, "Last policy version of its tokens; null when unknown.", nullable=True
        ),
        Column("tokenizer_sha256", Kind.STRING, "Tokenizer that the ids belong to, from the settings.", nullable=True),
        Column("finish_reason", Kind.STRING, "How the last call ended.", nullable=True),
        Column("truncated", Kind.BOOL, "Whether the last call ended by length or abort."),
        Column("faults", Kind.STRINGS, "Faults found while the trace was put together, as sorted reason codes."),
        Column("started_at", Kind.TIME, "Start of the first call.", "UTC"),
        Column("ended_at", Kind.TIME, "Last known time of the trace.", "UTC"),
        Column("ask_text", Kind.STRING, "Last user text before the first reply, as logged.", nullable=True),
        Column("reply_text", Kind.STRING, "Text of the last reply, as logged.", nullable=True),
        Column(
            "split",
            Kind.STRING,
            "train or holdout: by the hash of the ask (its id, else its text, else the trace), drawn once a trace.",
        ),
        Column("top_token_ids", Kind.INT32_LISTS, "Logged top-K tokens; null when not logged.", nullable=True),
        Column("top_token_logprobs", Kind.FLOAT32_LISTS, "Their log-probabilities.", "nats", nullable=True),
        Column("ingested_at", Kind.TIME, "When this revision was committed.", "UTC"),
        Column(
            "meaning_sha256",
            Kind.STRING,
            "Hash of the [deployments] settings behind its meaning; under others it is put together again.",
            nullable=True,
        ),
    ),
)
