"""What docs/methods.md takes from the code: `python -m train.methods.page` writes it again.

Such a part stands between `<!-- equation NAME -->`, `<!-- options NAME -->`, `<!-- corrections -->` or
`<!-- correction options -->` and `<!-- end -->`. All else on the page is written by hand.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from train.methods.catalog import METHODS
from train.methods.correction_catalog import CORRECTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
"""The page, in a checkout."""

_PART = re.compile(r"(?P<start><!-- (?P<name>[a-z_ ]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """The page with what it takes from the code as the code has it now; a part of an unknown name is refused."""
    parts = _parts()

    def filled(found: re.Match[str]) -> str:
        if found["name"] not in parts:
            raise UsageError(f"part {found['name']!r}: expected one of {', '.join(parts)}; mend the page")
        return f"{found['start']}\n{parts[found['name']]}\n\n{found['end']}"

    return _PART.sub(filled, page)


def equation(kind: type) -> str:
    """The equations in the docstring of a class, which are its indented lines, as a code block; empty without any."""
    lines = inspect.cleandoc(kind.__doc__ or "").splitlines()
    blocks = re.findall(r"(?:^    .*\n)+", "\n".join([*lines, ""]), flags=re.MULTILINE)
    text = "\n".join(blocks)
    return f"```text\n{inspect.cleandoc(text)}\n```" if blocks else ""


def option_rows(kind: type) -> Iterator[tuple[str, str, str]]:
    """Of each option of a class: its name, its default, and the string under it."""
    texts = _strings_under_fields(kind)
    for option in fields(kind):
        yield option.name, _default(option), texts[option.name]


def _parts() -> dict[str, str]:
    """Every part that a page may have, by name."""
    parts = {f"equation {name}": equation(kind) for name, kind in METHODS.items()}
    parts |= {
        f"options {name}": _table(["option", "default", "meaning and source"], option_rows(kind))
        for name, kind in METHODS.items()
    }
    parts["corrections"] = _table(
        ["correction", "what it keeps", "factor"],
        [(name, _first_paragraph(kind), _factor(kind)) for name, kind in CORRECTIONS.items()],
    )
    parts["correction options"] = _table(
        ["correction, option", "default", "meaning and source"],
        [
            (f"{name}, {option}", default, text)
            for name, kind in CORRECTIONS.items()
            for option, default, text in option_rows(kind)
        ],
    )
    return parts


def _table(head: list[str], rows: Iterator[tuple[str, str, str]] | list[tuple[str, str, str]]) -> str:
    """A Markdown table whose first column is code."""
    cells = [[f"`{first}`", *map(_cell, rest)] for first, *rest in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *cells])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(option: Field[Any]) -> str:
    """The default as it would be written; a correction by its name."""
    value = option.default if option.default_factory is MISSING else option.default_factory()
    if getattr(value, "name", None) in CORRECTIONS:
        value = value.name
    return f"`{value!r}`".replace("mappingproxy({})", "{}")


def _strings_under_fields(kind: type) -> dict[str, str]:
    """The string under each field of a class, on one line."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _first_paragraph(kind: type) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


def _factor(kind: Any) -> str:
    """What a correction multiplies advantages by, as the docstring of its `weigh` says."""
    return inspect.cleandoc(kind.weigh.__doc__).removeprefix("The weights ").rstrip(".")


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
