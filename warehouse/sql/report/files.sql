-- From which bytes was each input file read?
-- Grain: one row per file, at its last reading within the snapshot.
-- Parameters:
--   $snapshot bigint   snapshot of the lake
-- Tables:
--   files (uri, content_kind, num_lines, num_landed, num_duplicates, num_rejects, num_blank, bytes_read)   current_source_files
-- Columns:
--   the columns of files
--   content_sha256   SHA-256 of what was read
--   notes            what was odd about the file in any reading, as sorted reason codes
with readings as (
    select
        uri,
        max_by(content_sha256, file_version) as content_sha256,
        list_sort(list_distinct(flatten(list(notes)))) as notes,
    from source_files at (version => $snapshot)
    group by uri
)
select
    files.uri,
    files.content_kind,
    files.num_lines,
    files.num_landed,
    files.num_duplicates,
    files.num_rejects,
    files.num_blank,
    files.bytes_read,
    readings.content_sha256,
    readings.notes,
from files
inner join readings using (uri)
order by files.num_lines desc, files.uri
