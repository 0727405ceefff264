insert into lake_version values ($schema_version, $views_sha256, now())
