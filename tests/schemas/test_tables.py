"""The tables as declared, as the lake has them, and as the page tells them."""

from pathlib import Path

import pytest

from schemas.columns import SCHEMA_VERSION
from schemas.tables import TABLES, markdown, table
from schemas.upgrade import STEPS
from warehouse.lake import Lake

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """An empty lake."""
    with Lake.create(tmp_path_factory.mktemp("tables") / "lake") as made:
        yield made


@pytest.mark.parametrize("declared", TABLES, ids=lambda declared: declared.name)
def test_the_lake_has_each_column_as_declared(lake, declared):
    """Order, DuckDB type, nullability and comment in the lake are those of the declaration."""
    found = lake.sql(
        "select column_name, data_type, is_nullable, comment from duckdb_columns() "
        "where database_name = 'lake' and table_name = $name order by column_index",
        {"name": declared.name},
    ).to_pylist()
    for row in found:
        row["data_type"] = row["data_type"].replace('"', "")
    assert [tuple(row.values()) for row in found] == [
        (column.name, column.kind.sql.replace('"', ""), column.nullable, column.comment)
        for column in declared.all_columns
    ]


@pytest.mark.parametrize("declared", TABLES, ids=lambda declared: declared.name)
def test_arrow_and_ddl_agree(lake, declared):
    """A table read from the lake has the declared Arrow types, so neither rendering says more than the other."""
    read = lake.read(declared.name)
    assert read.schema.names == declared.schema.names
    assert read.schema.types == declared.schema.types


def test_the_page_is_what_the_declarations_render():
    """docs/tables.md was written by `python -m schemas.tables` from these very tables."""
    assert PAGE.read_text("utf-8") == markdown()


def test_every_table_says_in_its_key_what_one_row_is():
    """Each table has a key of columns that are never null, and names are used once."""
    assert len({declared.name for declared in TABLES}) == len(TABLES)
    for declared in TABLES:
        nullable = {column.name for column in declared.columns if column.nullable}
        assert declared.key, declared.name
        assert not nullable & set(declared.key), declared.name


def test_times_end_in_at_or_time_and_counts_begin_with_num():
    """Names tell their kind: a time, a count."""
    for declared in TABLES:
        for column in declared.columns:
            if column.kind.name == "TIME":
                assert column.unit == "UTC", f"{declared.name}.{column.name}"
                assert column.name.endswith(("_at", "_time", "_of")), f"{declared.name}.{column.name}"


def test_an_unknown_table_names_those_there_are():
    """A misspelt name is told with the list."""
    assert table("traces").grain.startswith("training sequence")
    with pytest.raises(KeyError, match="source_files"):
        table("trace")


def test_every_version_has_its_step():
    """From the first version to this one, no step is missing and none leads further."""
    assert set(STEPS) == set(range(2, SCHEMA_VERSION + 1))
