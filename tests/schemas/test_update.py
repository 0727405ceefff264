"""The table of updates in a lake that was made before there was one."""

import pytest

from schemas.errors import LakeError
from schemas.update import UPDATES
from tests.warehouse.rows import reject, update
from tests.warehouse.test_views import write
from warehouse.lake import Lake

COLUMNS = (
    "select column_name, data_type, is_nullable from duckdb_columns() "
    "where database_name = 'lake' and table_name = 'updates' order by column_index"
)


@pytest.fixture
def old(tmp_path):
    """The folder of a lake of version 2, with a row in it, and the columns that a new lake has."""
    with Lake.create(tmp_path / "lake") as lake:
        write(lake, rejects=[reject("a", 0)])
        columns = lake.sql(COLUMNS).to_pylist()
        with lake.exclusive(purpose="test") as connection:
            connection.execute("drop table updates")
            connection.execute("insert into lake_version values (2, 'views', now() + interval 1 day)")
    return tmp_path / "lake", columns


def test_an_older_lake_gets_the_table_as_a_new_one_has_it(old):
    """Opened for writing: same columns, types and nullability, what was there stays, and a row can be appended."""
    root, columns = old
    with Lake.open(root) as lake:
        assert lake.sql(COLUMNS).to_pylist() == columns
        write(lake, updates=[update(0)])
        assert lake.read("updates").schema.types == UPDATES.schema.types
        assert (lake.read("updates").num_rows, lake.read("rejects").num_rows) == (1, 1)


def test_an_older_lake_is_not_read_before_it_is_upgraded(old):
    """Reading alone changes nothing, so it says what does."""
    with pytest.raises(LakeError, match="has schema version 2, this code reads 3"):
        Lake.open(old[0], read_only=True)
