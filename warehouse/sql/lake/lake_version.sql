create table if not exists lake_version (
    schema_version integer not null,
    views_sha256 varchar not null,
    recorded_at timestamp with time zone not null,
)
