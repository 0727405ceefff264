call ducklake_merge_adjacent_files('lake', {table:text})
