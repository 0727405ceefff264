call ducklake_add_data_files('lake', $table_name, $path)
