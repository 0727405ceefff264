-- How did the lines of each file end?
-- Grain: one row per file.
-- Columns:
--   uri              the file
--   content_kind     calls or outcomes
--   num_readings     versions of the file that were read
--   num_lines        lines; the sum of the four that follow
--   num_landed       lines that became calls or outcomes
--   num_duplicates   lines whose content had landed before
--   num_rejects      lines that are rejected
--   num_blank        lines of white space only
select
    uri,
    content_kind,
    num_readings,
    num_lines,
    num_landed,
    num_duplicates,
    num_rejects,
    num_blank,
from current_source_files
order by content_kind, uri
