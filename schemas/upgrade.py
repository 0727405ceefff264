"""The steps from one version of the tables to the next.

Version 1 is the first. A step is a tuple of DDL statements under the version it leads to;
`warehouse.versions` runs the missing ones in order, in one transaction, when it opens an older lake for writing.
A new column is nullable, since the rows of older versions do not have it; `schema_version` says which those are. What
they kept in other columns is read from there: the weights of a call of version 1 from its `policy_version`
(warehouse/sql/ingest/calls_of_traces.sql).
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
}
"""DDL statements by the schema version that they lead to."""
