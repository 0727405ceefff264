-- Which lines landed more than once, from two files or under two identities?
-- Grain: one row per line and choice that occurs in several rows of calls.
-- Columns:
--   line_sha256    the line
--   choice_index   the choice of its response
--   num_rows       rows that it became
--   uris           the files that claim it
select
    line_sha256,
    choice_index,
    count(*) as num_rows,
    list_sort(list(distinct uri)) as uris,
from calls
group by line_sha256, choice_index
having count(*) > 1
order by line_sha256, choice_index
