select max(snapshot_id) as snapshot_id from ducklake_snapshots('lake')
