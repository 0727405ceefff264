"""What is known of the files that were read, the lines that failed, the runs and the erasures."""

from schemas.columns import Column, Kind, Table

SOURCE_FILES = Table(
    "source_files",
    "version of one source file",
    "ingest",
    ("uri", "file_version"),
    (
        Column("uri", Kind.STRING, "Where the file was read: an absolute path or URL."),
        Column("file_version", Kind.INT32, "0 at first reading; one more each time the file had grown or changed."),
        Column("content_kind", Kind.STRING, "What its lines are: calls or outcomes."),
        Column("bytes_read", Kind.INT64, "Decompressed bytes that are settled; reading goes on here.", "bytes"),
        Column("content_sha256", Kind.STRING, "SHA-256 of the settled decompressed bytes, from the start of the file."),
        Column("size_on_disk", Kind.INT64, "Size of the file as stored when it was read.", "bytes"),
        Column("num_lines", Kind.INT64, "Lines read in this version; equals the sum of the four states."),
        Column("num_landed", Kind.INT64, "Lines that became calls or outcomes."),
        Column("num_duplicates", Kind.INT64, "Lines whose content had landed before, here or under another name."),
        Column("num_rejects", Kind.INT64, "Lines that could not become a call or an outcome."),
        Column(
            "num_blank",
            Kind.INT64,
            "Lines with nothing to keep: white space, or a known record that holds no call and no score.",
        ),
        Column("notes", Kind.STRINGS, "What was odd about the file as a whole, as reason codes."),
        Column("ingested_at", Kind.TIME, "When this version was committed.", "UTC"),
        Column(
            "redacted_json",
            Kind.JSON,
            "What was taken out of its texts before they were written: how many by kind, as a JSON object.",
            nullable=True,
        ),
    ),
)

REJECTS = Table(
    "rejects",
    "line that could not become a call or an outcome",
    "ingest",
    ("uri", "file_version", "byte_offset"),
    (
        Column("uri", Kind.STRING, "The file."),
        Column("file_version", Kind.INT32, "The reading of the file in which the line was rejected."),
        Column(
            "byte_offset", Kind.INT64, "Where the line begins in the decompressed file; in Parquet, the row.", "bytes"
        ),
        Column("num_bytes", Kind.INT64, "Length of the line without its newline.", "bytes"),
        Column("line_sha256", Kind.STRING, "SHA-256 of the line without its newline."),
        Column("reason", Kind.STRING, "Code from the closed list of reasons."),
        Column("message", Kind.STRING, "What was wrong, what was expected, what to do."),
        Column(
            "first_bytes", Kind.STRING, "The first 200 bytes, undecodable bytes escaped, values of user fields hidden."
        ),
        Column("ingested_at", Kind.TIME, "When the reject was committed.", "UTC"),
    ),
)

RUNS = Table(
    "runs",
    "state of one run (the latest `revision` is current)",
    "flows",
    ("run_id", "revision"),
    (
        Column("run_id", Kind.STRING, "Night and settings hash for a nightly run; command and time for a single step."),
        Column("revision", Kind.INT32, "0 when it started; higher rows supersede lower ones."),
        Column("kind", Kind.STRING, "nightly, or the name of the single step."),
        Column("night", Kind.STRING, "The date whose night it is, YYYY-MM-DD."),
        Column("state", Kind.STRING, "started, done or failed."),
        Column("decision", Kind.STRING, "go, hold, no_go, skipped, or null while unknown.", nullable=True),
        Column("sentence", Kind.STRING, "The decision in one sentence.", nullable=True),
        Column("exit_code", Kind.INT32, "What the command returned.", nullable=True),
        Column("settings_json", Kind.JSON, "The whole settings as JSON, secrets excluded."),
        Column("settings_sha256", Kind.STRING, "SHA-256 of `settings_json`."),
        Column("code_version", Kind.STRING, "Version of the package and git commit where known."),
        Column("base_policy", Kind.STRING, "The current policy when the run began.", nullable=True),
        Column("new_policy", Kind.STRING, "The policy version that the run made.", nullable=True),
        Column("lake_snapshot", Kind.INT64, "Snapshot of the lake that validation and training read.", nullable=True),
        Column("report_uri", Kind.STRING, "Where the report was written.", nullable=True),
        Column("as_of", Kind.TIME, "The run's clock: ages and maturity are measured from here.", "UTC"),
        Column("started_at", Kind.TIME, "Wall clock at the start.", "UTC"),
        Column("ended_at", Kind.TIME, "Wall clock at the end.", "UTC", nullable=True),
    ),
)

ERASURES = Table(
    "erasures",
    "erasure request",
    "flows",
    ("erasure_id",),
    (
        Column("erasure_id", Kind.STRING, "Identity of the request."),
        Column("user_hash", Kind.STRING, "Whose data was erased, as the salted hash."),
        Column("requested_at", Kind.TIME, "When it was asked for.", "UTC"),
        Column("completed_at", Kind.TIME, "When no byte was left.", "UTC", nullable=True),
        Column("num_rows", Kind.INT64, "Rows deleted over all tables."),
        Column(
            "tainted_policies", Kind.STRINGS, "Policy versions trained on the erased traces, and their descendants."
        ),
    ),
)
