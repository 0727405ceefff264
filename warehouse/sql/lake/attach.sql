-- The journal is a write-ahead log, so that an analyst's open query never makes a commit wait or fail.
attach {catalog:text} as lake (
    data_path {data:text},
    override_data_path true,
    meta_journal_mode 'WAL',
    meta_busy_timeout 30000
)
