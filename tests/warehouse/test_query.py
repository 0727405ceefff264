"""Named queries: headers read, parameters typed, mistakes told with the list."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from schemas.errors import UsageError
from warehouse import query
from warehouse.statements import SQL_FOLDER, statement

FOLDERS = sorted(path.name for path in SQL_FOLDER.iterdir() if path.is_dir() and path.name != "lake")
QUERIES = [name for folder in FOLDERS for name in query.names(folder)]


@pytest.mark.parametrize("name", QUERIES)
def test_every_file_says_what_it_answers_and_declares_what_it_takes(name):
    """A header has a question, a grain and columns, and every parameter of the text is in it with a meaning."""
    loaded = query.load(name)
    assert loaded.question
    assert loaded.question.endswith((".", "?")), loaded.question
    assert loaded.grain.endswith("."), loaded.grain
    assert loaded.columns
    assert all(parameter.meaning for parameter in loaded.parameters), loaded.parameters
    assert loaded.text == loaded.text.rstrip() + "\n"


def test_the_saved_questions_are_listed_by_name():
    """Every file of the folder is a question, told by its first line."""
    listed = {question.name: question.question for question in query.questions()}
    assert len(listed) >= 22
    assert listed["age_by_workload"] == "How old are the traces by the wall clock, workload by workload?"


def test_a_header_is_read_into_its_parts():
    """Type, default and meaning of a parameter; name and meaning of a column, continued lines joined."""
    loaded = query.load("staleness_by_version")
    trust, as_of = loaded.parameters
    assert (trust.name, trust.type, trust.required, trust.default) == ("trust", "double", False, 0.003)
    assert trust.meaning == "highest drift that the gate admits, nats per token"
    assert (as_of.type, as_of.default) == ("timestamptz", None)
    assert loaded.grain == "one row per behavior version; null for traces whose version is unknown or mixed."
    assert ("num_traces", "traces that it wrote") in loaded.columns


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("staleness_by_version", {"turst": 1}, "unknown parameter 'turst'; expected trust (default 0.003), as_of"),
        ("policies_trained_by_user", {}, "parameter 'user_hash' is missing; expected user_hash"),
        ("own_share", {"trust": 1}, "unknown parameter 'trust'; expected no parameters"),
        ("staleness_by_version", {"trust": "high"}, "parameter trust is 'high'; expected double"),
        ("staleness_by_version", {"as_of": "2026-11-29"}, "with its offset"),
        ("nights", {"num_rows": "2.5"}, "parameter num_rows is '2.5'; expected bigint"),
        ("admission_curve", {"trusts": "0.1;0.2"}, "expected double list"),
    ],
)
def test_a_wrong_parameter_is_refused_with_the_list(name, given, words):
    """Unknown, missing and badly typed parameters say what the query takes."""
    with pytest.raises(UsageError) as refused:
        query.load(name).bind(given)
    assert words in str(refused.value)


def test_text_is_read_as_the_declared_type():
    """A command line passes what was typed."""
    assert query.load("staleness_by_version").bind({"trust": "0.01", "as_of": "2026-11-29T01:00:00+01:00"}) == {
        "trust": 0.01,
        "as_of": datetime(2026, 11, 29, tzinfo=UTC),
    }
    assert query.load("admission_curve").bind({"trusts": "0.1, 0.2"}) == {"trusts": [0.1, 0.2]}
    assert query.load("nights").bind({}) == {"num_rows": 14}


@pytest.mark.parametrize("name", ["no_such_question", "../lake/begin", "lake/begin;", "", "questions"])
def test_an_unknown_name_is_refused(name):
    """A name that is no query, or that leaves the folder, names the questions or the form."""
    with pytest.raises(UsageError, match="expected"):
        query.load(name)


def test_dollars_in_texts_and_comments_are_no_parameters(tmp_path, monkeypatch):
    """Only what DuckDB would bind counts; an undeclared parameter is required."""
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "money.sql").write_text("-- How much?\nselect '$price', $amount -- $note\n")
    monkeypatch.setattr(query, "SQL_FOLDER", tmp_path)
    monkeypatch.setattr("warehouse.query._load", query._load.__wrapped__)
    loaded = query.load("test/money")
    assert [(parameter.name, parameter.required) for parameter in loaded.parameters] == [("amount", True)]
    assert loaded.question == "How much?"


def test_arrow_tables_are_relations_for_one_query_only(night):
    """A table handed over by name is there during the query and not after it."""
    incoming = pa.table({"trace_id": ["t1", "t9"], "revision": pa.array([0, 0], pa.int32())})
    with pytest.raises(UsageError, match="no query"):
        night.query("test/nothing", {"incoming": incoming})
    with pytest.raises(UsageError, match="incoming"):
        night.sql("select * from incoming")


def test_a_statement_quotes_what_it_is_filled_with():
    """Names and texts cannot end their quotes."""
    assert statement("lake/where_null", column='a" or true --') == '"a"" or true --" is null'
    assert statement("lake/load", extension="x'; drop") == "load 'x''; drop'"
