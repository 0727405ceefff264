-- Where do the counts of the ledger disagree with each other or with the rows that landed?
-- Grain: one row per disagreement.
-- Columns:
--   uri            the file
--   file_version   the reading; null where all readings are taken together
--   what           which counts disagree
--   expected       what the ledger says
--   found          what there is
with reject_rows as (
    select
        uri,
        file_version,
        count(*) as num_rows,
    from rejects
    group by uri, file_version
),
landed_lines as (
    select
        uri,
        count(distinct (line_sha256, byte_offset)) as num_rows,
    from (
        select uri, line_sha256, byte_offset from calls
        union all
        select uri, line_sha256, byte_offset from outcomes
    )
    group by uri
),
landed_ledger as (
    select
        uri,
        sum(num_landed)::bigint as num_landed,
    from source_files
    group by uri
),
disagreements as (
    select
        uri,
        file_version,
        'lines against the sum of their states' as what,
        num_lines as expected,
        num_landed + num_duplicates + num_rejects + num_blank as found,
    from source_files
    union all
    select
        coalesce(source_files.uri, reject_rows.uri),
        coalesce(source_files.file_version, reject_rows.file_version),
        'rejects of the reading',
        coalesce(source_files.num_rejects, 0),
        coalesce(reject_rows.num_rows, 0),
    from source_files
    full join reject_rows using (uri, file_version)
    union all
    select
        coalesce(landed_ledger.uri, landed_lines.uri),
        null,
        'lines that landed',
        coalesce(landed_ledger.num_landed, 0),
        coalesce(landed_lines.num_rows, 0),
    from landed_ledger
    full join landed_lines using (uri)
)
select
    uri,
    file_version,
    what,
    expected,
    found,
from disagreements
where expected <> found
order by uri, file_version, what
