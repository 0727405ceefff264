-- How far has each file been read?
-- Grain: one row per wanted file that has been read before: its latest version.
-- Tables:
--   wanted (uri)
-- Columns:
--   uri             the file
--   file_version    its latest version
--   bytes_read      decompressed bytes that are settled
--   content_sha256  SHA-256 of those bytes
--   size_on_disk    bytes of the file as stored, when it was read
--   tail_sha256     SHA-256 of the cut last line that was rejected after them; null when there was none
with readings as (
    select
        source_files.uri,
        source_files.file_version,
        source_files.bytes_read,
        source_files.content_sha256,
        source_files.size_on_disk,
    from source_files
    semi join wanted on wanted.uri = source_files.uri
    qualify row_number() over (
        partition by source_files.uri
        order by source_files.file_version desc
    ) = 1
)
select
    readings.uri,
    readings.file_version,
    readings.bytes_read,
    readings.content_sha256,
    readings.size_on_disk,
    max(tails.line_sha256) as tail_sha256,
from readings
left join rejects as tails
    on tails.uri = readings.uri
    and tails.file_version = readings.file_version
    and tails.byte_offset >= readings.bytes_read
    and tails.reason in ('truncated_tail', 'damaged_bytes')
group by all
