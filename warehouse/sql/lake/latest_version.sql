select schema_version, views_sha256 from lake_version order by recorded_at desc, schema_version desc limit 1
