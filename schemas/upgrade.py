"""The steps from one version of the tables to the next.

Version 1 is the first. A step is a tuple of DDL statements under the version it leads to;
`warehouse.versions` runs the missing ones in order, in one transaction, when it opens an older lake for writing.
A new column is nullable, since the rows of older versions do not have it; `schema_version` says which those are. What
they kept in other columns is read from there: the weights of a call of version 1 from its `policy_version`
(warehouse/sql/ingest/calls_of_traces.sql).
A new table is spelled out as it was then, whatever columns it has got since.
"""

STEPS: dict[int, tuple[str, ...]] = {
    2: (
        'ALTER TABLE "calls" ADD COLUMN "logged_deployment" VARCHAR;',
        'ALTER TABLE "calls" ADD COLUMN "span_id" VARCHAR;',
        (
            'ALTER TABLE "calls" ADD COLUMN "version_spans" '
            'STRUCT("policy_version" VARCHAR, "start" INTEGER, "end" INTEGER)[];'
        ),
        'ALTER TABLE "calls" ADD COLUMN "masked_positions" INTEGER[];',
        'ALTER TABLE "traces" ADD COLUMN "meaning_sha256" VARCHAR;',
        'ALTER TABLE "outcomes" ADD COLUMN "session_id" VARCHAR;',
        'ALTER TABLE "outcomes" ADD COLUMN "label" VARCHAR;',
        'ALTER TABLE "source_files" ADD COLUMN "redacted_json" VARCHAR;',
    ),
    3: (
        (
            'CREATE TABLE IF NOT EXISTS "updates" ("run_id" VARCHAR NOT NULL, "step" BIGINT NOT NULL, '
            '"method" VARCHAR NOT NULL, "moved" BOOLEAN NOT NULL, "is_critic_warming_up" BOOLEAN NOT NULL, '
            '"num_traces" BIGINT NOT NULL, "num_in_trust" BIGINT NOT NULL, "in_trust_share" DOUBLE, '
            '"mean_drift" DOUBLE, "masked_token_share" DOUBLE, "loss" DOUBLE, "grad_norm" DOUBLE, '
            '"learning_rate" DOUBLE NOT NULL, "mean_entropy" DOUBLE, "mean_surprise" DOUBLE, "critic_loss" '
            'DOUBLE, "critic_explained_variance" DOUBLE, "num_tokens" BIGINT NOT NULL, "num_slots" BIGINT NOT '
            'NULL, "tokens_per_second" DOUBLE NOT NULL, "mfu" DOUBLE, "replayed_at" TIMESTAMP WITH TIME ZONE '
            'NOT NULL, "schema_version" INTEGER NOT NULL);'
        ),
    ),
}
"""DDL statements by the schema version that they lead to."""
