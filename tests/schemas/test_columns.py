"""A column declared once says the same in Arrow, in DDL, in comments and in the documentation."""

import pyarrow as pa
import pytest

from schemas.columns import Column, Kind, Table

COLUMN = Column("drift", Kind.FLOAT64, "Mean KL of the trace's tokens.", "nats", nullable=True)
TABLE = Table("drifts", "trace", "train", ("trace_id",), (Column("trace_id", Kind.STRING, "The trace."), COLUMN))


def test_a_table_renders_its_ddl():
    """Names quoted, nulls refused where the column says so, the version last."""
    assert TABLE.ddl() == (
        'CREATE TABLE IF NOT EXISTS "drifts" (\n'
        '    "trace_id" VARCHAR NOT NULL,\n'
        '    "drift" DOUBLE,\n'
        '    "schema_version" INTEGER NOT NULL\n'
        ");"
    )


def test_a_table_renders_its_comments_with_quotes_doubled():
    """The meaning and the unit of each column, and the grain of the table."""
    table, trace_id, drift, version = TABLE.comments()
    assert table == "COMMENT ON TABLE \"drifts\" IS 'One row per trace.';"
    assert trace_id == 'COMMENT ON COLUMN "drifts"."trace_id" IS \'The trace.\';'
    assert drift == "COMMENT ON COLUMN \"drifts\".\"drift\" IS 'Mean KL of the trace''s tokens. [nats]';"
    assert version.startswith('COMMENT ON COLUMN "drifts"."schema_version" IS ')


def test_a_table_renders_its_arrow_schema():
    """Type, nullability and comment of each field."""
    schema = TABLE.schema
    assert schema.names == ["trace_id", "drift", "schema_version"]
    assert (schema.field("drift").type, schema.field("drift").nullable) == (pa.float64(), True)
    assert schema.field("drift").metadata == {b"comment": b"Mean KL of the trace's tokens. [nats]"}
    assert not schema.field("trace_id").nullable


def test_a_table_renders_its_page():
    """One line of the table of columns for each column."""
    assert "| `drift` | DOUBLE | nats | yes | Mean KL of the trace's tokens. |" in TABLE.markdown()
    assert TABLE.markdown().startswith("## drifts\n\nOne row per trace. Written by train. Key: `trace_id`.")


@pytest.mark.parametrize(("name", "meaning"), [("at", "A word of DuckLake."), ("two words", "No name."), ("good", "")])
def test_a_column_that_cannot_be_rendered_is_refused(name, meaning):
    """A keyword, a name that is none, and a column without a meaning."""
    with pytest.raises(ValueError, match=r"expected|no meaning"):
        Column(name, Kind.STRING, meaning)


def test_a_key_names_columns():
    """A key over a column that is not there is refused."""
    with pytest.raises(ValueError, match=r"names no column"):
        Table("drifts", "trace", "train", ("trace",), (COLUMN,))


def test_kinds_are_distinct():
    """No kind is an alias of another, so that JSON stays JSON."""
    assert len(Kind.__members__) == len(list(Kind))
    assert Kind.JSON is not Kind.STRING
    assert Kind.JSON.sql == Kind.STRING.sql
