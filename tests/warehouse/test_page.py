"""docs/sql.md tells every question, view and audit."""

from pathlib import Path

from warehouse import query
from warehouse.page import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"


def test_the_page_is_what_the_headers_render():
    """docs/sql.md was written by `python -m warehouse.page` from these very files."""
    assert PAGE.read_text("utf-8") == markdown()


def test_every_question_is_told_with_its_parameters():
    """Name, question, grain and each parameter with its default."""
    page = markdown()
    for question in query.questions():
        assert f"### {question.name}\n\n{question.question}" in page
        assert all(f"| `{parameter.name}` |" in page for parameter in question.parameters)
    assert "| `trust` | double | 0.003 | highest drift that the gate admits, nats per token |" in page
    assert "| `user_hash` | varchar | required | the user, as the salted hash |" in page
