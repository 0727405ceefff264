"""The settings file that `tracemill init` writes: every setting, its meaning above it, its default after it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from flows.settings import TracemillSettings
from schemas.settings import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_HEAD = """\
# Settings of tracemill. A line that begins with "# name =" shows a default; take the "# " away to change it.
# Relative paths are relative to this file. Secrets come from the environment, never from here.
"""


def render_template() -> str:
    """The text of a new settings file; it parses once the settings that have no default are filled in."""
    groups = [_group(name, field) for name, field in TracemillSettings.model_fields.items()]
    return _HEAD + "\n" + "\n".join(groups)


def _group(name: str, field: FieldInfo) -> str:
    kind = _settings_class(field)
    if kind is None:
        raise TypeError(f"settings.{name}: {field.annotation} is no group of settings")
    is_one = field.annotation is kind
    path = name if is_one else f"{name}.NAME"
    lines, tables = [_comment(field.description or ""), f"[{path}]" if is_one else f"# [{path}]"], []
    for setting, inner in kind.model_fields.items():
        nested = _settings_class(inner)
        if nested is not None:
            tables += _nested(f"{path}.{setting}", inner, nested)
        else:
            lines += ["", _comment(inner.description or ""), _line(setting, inner, shown=is_one)]
    # A table's own settings end where the next table begins, so tables within it come last.
    return "\n".join(lines + tables) + "\n"


def _nested(path: str, field: FieldInfo, kind: type[Settings]) -> list[str]:
    origin = get_origin(field.annotation)
    header = f"# [{path}]" if origin is None else f"# [{path}.NAME]" if origin is dict else f"# [[{path}]]"
    lines = ["", _comment(field.description or ""), header]
    for setting, inner in kind.model_fields.items():
        lines += [_comment(inner.description or ""), _line(setting, inner, shown=False)]
    return lines


def _line(name: str, field: FieldInfo, *, shown: bool) -> str:
    if field.is_required():
        return f"{'' if shown else '# '}{name} = {_placeholder(field)}  # required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return f"# {name} =   # not set"
    return f"# {name} = {_toml(value)}"


def _placeholder(field: FieldInfo) -> str:
    return "0" if field.annotation in {int, float} else '"..."'


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"no TOML form for {type(value).__name__}")


def _settings_class(field: FieldInfo) -> type[Settings] | None:
    candidates = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in candidates if isinstance(kind, type) and issubclass(kind, Settings)), None)


def _comment(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 116, initial_indent="# ", subsequent_indent="# ")
