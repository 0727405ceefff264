call ducklake_delete_orphaned_files('lake', older_than => $older_than::timestamptz)
