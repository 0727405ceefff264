-- Which rejected lines are still rejected?
-- Grain: one row per file and byte offset, from the last reading of that offset.
-- Columns:
--   *   the columns of rejects; a line that a later reading of its file read again is left out, such as a cut last
--       line that has since been completed
with rereadings as (
    select
        later.uri,
        earlier.file_version,
        min(case when list_contains(later.notes, 'file_changed') then 0 else earlier.bytes_read end) as reread_from,
    from source_files as earlier
    inner join source_files as later
        on later.uri = earlier.uri
        and later.file_version > earlier.file_version
    group by later.uri, earlier.file_version
)
select rejects.*
from rejects
left join rereadings using (uri, file_version)
where coalesce(rejects.byte_offset < rereadings.reread_from, true)
