-- How did the lines of each file end?
-- Grain: one row per file, all its readings added up; a line that was read again is counted once.
-- Columns:
--   uri               the file
--   content_kind      calls or outcomes
--   num_readings      versions of the file that were read
--   num_lines         lines; the sum of the four states that follow
--   num_landed        lines that became calls or outcomes
--   num_duplicates    lines whose content had landed before
--   num_rejects       lines that are still rejected
--   num_blank         lines of white space only
--   bytes_read        decompressed bytes that are settled
--   last_ingested_at  when it was last read with something new in it
with read_again as (
    select
        rejects.uri,
        count(*) as num_read_again,
    from rejects
    anti join current_rejects using (uri, file_version, byte_offset)
    group by rejects.uri
),
totals as (
    select
        uri,
        any_value(content_kind) as content_kind,
        count(*) as num_readings,
        sum(num_lines)::bigint as num_lines,
        sum(num_landed)::bigint as num_landed,
        sum(num_duplicates)::bigint as num_duplicates,
        sum(num_rejects)::bigint as num_rejects,
        sum(num_blank)::bigint as num_blank,
        max_by(bytes_read, file_version) as bytes_read,
        max(ingested_at) as last_ingested_at,
    from source_files
    group by uri
)
select
    totals.uri,
    totals.content_kind,
    totals.num_readings,
    totals.num_lines - coalesce(read_again.num_read_again, 0) as num_lines,
    totals.num_landed,
    totals.num_duplicates,
    totals.num_rejects - coalesce(read_again.num_read_again, 0) as num_rejects,
    totals.num_blank,
    totals.bytes_read,
    totals.last_ingested_at,
from totals
left join read_again using (uri)
