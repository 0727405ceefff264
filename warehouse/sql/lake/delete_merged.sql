call ducklake_cleanup_old_files('lake', older_than => $older_than::timestamptz)
