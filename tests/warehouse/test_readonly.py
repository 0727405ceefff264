"""`lake.sql` answers questions and does nothing else."""

import pytest

from schemas.errors import UsageError
from tests.warehouse.rows import reject

ATTACKS = [
    "copy (select 1) to '{root}/data/stolen.csv'",
    "copy (select 1) to '{root}/../stolen.csv'",
    "copy calls from '/etc/passwd'",
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('{root}/catalog.sqlite')",
    "select * from read_parquet('{root}/data/main/policies/*.parquet')",
    "select * from parquet_metadata('{root}/data/main/policies/x.parquet')",
    "select * from '/etc/passwd'",
    "select * from '{root}/data/main/policies/x.parquet'",
    "select * from glob('/etc/*')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from sqlite_scan('{root}/catalog.sqlite', 'ducklake_metadata')",
    "select (select count(*) from sqlite_scan('{root}/catalog.sqlite', 'ducklake_metadata'))",
    "with stolen as (select * from read_text('/etc/passwd')) select * from stolen",
    "select * from calls where exists (from read_text('/etc/passwd'))",
    "select unnest([x.content for x in (select read_text from read_text('/etc/passwd'))])",
    "select * from query('select * from read_text(''/etc/passwd'')')",
    "select * from query_table('calls')",
    "select * from sqlite_query('lake', 'select 1')",
    "attach '/tmp/other.db'",
    "attach '{root}/catalog.sqlite' as catalog (type sqlite)",
    "attach 'ducklake:sqlite:{root}/catalog.sqlite' as writable",
    "detach lake",
    "use memory",
    "install httpfs",
    "load json",
    "pragma database_list",
    "pragma enable_profiling",
    "set threads = 1",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset lock_configuration",
    "select 1; select 2",
    "select 1; copy (select 1) to '{root}/data/stolen.csv'",
    "explain analyze copy (select 1) to '{root}/data/stolen.csv'",
    "explain select 1",
    "prepare stolen as select 1",
    "insert into policies select * from policies",
    "insert into lake.policies select * from policies",
    "update policies set state = 'current'",
    "delete from policies",
    "drop table policies",
    "truncate policies",
    "alter table policies add column x integer",
    "create table stolen as select * from policies",
    "create temp table stolen as select * from policies",
    "create or replace view current_traces as select 1",
    "create macro stolen() as 1",
    "call ducklake_expire_snapshots('lake', older_than => now())",
    "select * from ducklake_expire_snapshots('lake', older_than => now())",
    "select * from ducklake_cleanup_old_files('lake', cleanup_all => true)",
    "select * from ducklake_add_data_files('lake', 'policies', '{root}/data/main/policies/x.parquet')",
    "call ducklake_delete_orphaned_files('lake', cleanup_all => true)",
    "begin transaction",
    "checkpoint",
    "vacuum",
    "export database '{root}/data'",
    "select getenv('HOME')",
    "select * from postgres_scan('host=127.0.0.1', 'a', 'b')",
    "select * from 'https://example.com/x.parquet'",
    "select * from python_variable",
    "",
    ";",
    "-- nothing",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_but_one_select_over_the_lake_is_run(night, attack):
    """Writing, reading other files, attaching, installing, setting and a second statement are refused."""
    python_variable = {"x": [1]}
    with pytest.raises(UsageError, match=r"Expected one select|expected one select|expected tables and views"):
        night.sql(attack.format(root=night.root))
    assert python_variable
    assert not list(night.root.parent.rglob("stolen*"))


@pytest.mark.parametrize(
    "attack",
    [
        "copy (select 1) to '{root}/../stolen.csv'",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "attach '{root}/../stolen.db'",
        "set enable_external_access = true",
        "install httpfs",
    ],
)
def test_the_connection_alone_does_not_leave_the_lake(night, attack):
    """Without the look at the statement the second lock still holds: no file outside the lake is read or written."""
    night.sql("select 1")
    with pytest.raises(Exception, match=r"disabled by configuration|configuration has been locked"):
        night._guarded._connection.execute(attack.format(root=night.root))
    assert not list(night.root.parent.rglob("stolen*"))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("select count(*) as n from calls", 6),
        ("from current_policy select optimizer_step", 109),
        ("with steps as (select unnest([1, 2, 3]) as n) select sum(n) from steps", 6),
        ("select count(*) from range(5) union all select 1 limit 1", 5),
        ("select count(*) from traces at (version => 0)", None),
        ("select count(*) from duckdb_columns() where database_name = 'lake' and table_name = 'replays'", 18),
        ("select list_sum(list_transform([1, 2], lambda x: x * 2))", 6),
        ("select 'copy to; attach' as text_only", "copy to; attach"),
    ],
)
def test_any_select_over_the_lake_is_answered(night, question, answer):
    """Tables, views, steps, lists and the catalog of columns are open to questions."""
    if answer is None:
        with pytest.raises(UsageError, match="does not exist"):
            night.sql(question)
        return
    assert night.sql(question).to_pylist()[0].popitem()[1] == answer


def test_parameters_are_bound_not_pasted(night):
    """A value with quotes in it is a value."""
    text = "select count(*) as n from calls where trace_id = $trace_id"
    assert night.sql(text, {"trace_id": "t3"})["n"].to_pylist() == [2]
    assert night.sql(text, {"trace_id": "' or true or '"})["n"].to_pylist() == [0]


def test_a_wrong_question_is_a_usage_error_with_duckdbs_words(night):
    """A misspelt column is told as DuckDB tells it."""
    with pytest.raises(UsageError, match="trace_idd"):
        night.sql("select trace_idd from calls")


def test_questions_see_what_was_committed_since(lake):
    """The second connection reads the latest snapshot each time."""
    assert lake.sql("select count(*) as n from rejects")["n"].to_pylist() == [0]
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    assert lake.sql("select count(*) as n from rejects")["n"].to_pylist() == [1]
