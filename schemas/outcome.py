"""One score event from somewhere, append-only."""

from typing import Literal

from schemas.columns import Column, Kind, Table

SourceKind = Literal["human", "program", "judge", "user", "webhook"]
"""Who scores."""

OUTCOMES = Table(
    "outcomes",
    "score event",
    "ingest",
    ("outcome_id",),
    (
        Column("outcome_id", Kind.STRING, "Hash of the event's content, so that a second delivery is the same event."),
        Column("event_id", Kind.STRING, "The sender's name of the event.", nullable=True),
        Column("trace_id", Kind.STRING, "Trace that it scores, when the event says so.", nullable=True),
        Column("call_id", Kind.STRING, "Call that it scores, by `call_id` or `span_id`, if stated.", nullable=True),
        Column("response_id", Kind.STRING, "Response that it scores, when the event says so.", nullable=True),
        Column("business_key", Kind.STRING, "Business key of what it scores: an `ask_id`.", nullable=True),
        Column("name", Kind.STRING, "What was scored, such as refund_correct."),
        Column("value", Kind.FLOAT64, "The score; null when the event withdraws an earlier one.", nullable=True),
        Column("source_kind", Kind.STRING, "human, program, judge, user or webhook."),
        Column("source", Kind.STRING, "Who scored: program, judge model or rater."),
        Column("scorer_version", Kind.STRING, "Version of the scorer.", nullable=True),
        Column("event_time", Kind.TIME, "When the score was given.", "UTC"),
        Column("observed_time", Kind.TIME, "When the score reached us; the event time where nothing says so.", "UTC"),
        Column("uri", Kind.STRING, "The file that it was read from."),
        Column("byte_offset", Kind.INT64, "Where its line begins.", "bytes"),
        Column("line_sha256", Kind.STRING, "SHA-256 of its line."),
        Column("ingested_at", Kind.TIME, "When it was committed.", "UTC"),
        Column("session_id", Kind.STRING, "Session that it scores, when the event says so.", nullable=True),
        Column("label", Kind.STRING, "The score in words, such as resolved.", nullable=True),
    ),
)
