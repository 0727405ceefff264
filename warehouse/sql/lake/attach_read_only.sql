attach {catalog:text} as lake (
    data_path {data:text},
    override_data_path true,
    read_only,
    meta_busy_timeout 30000
)
