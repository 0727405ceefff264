-- Which data file is part of the lake more than once? Its rows would count twice.
-- Grain: one row per table and data file.
-- Columns:
--   table_name   the table
--   path         the file, relative to the table's folder
--   num_times    how often it is part of the current snapshot
select
    tables.table_name,
    files.path,
    count(*) as num_times,
from __ducklake_metadata_lake.ducklake_data_file as files
inner join __ducklake_metadata_lake.ducklake_table as tables
    on tables.table_id = files.table_id
    and tables.end_snapshot is null
where files.end_snapshot is null
group by tables.table_name, files.path
having count(*) > 1
order by tables.table_name, files.path
