"""A page taken apart: its elements, their attributes, its text."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any, get_type_hints

from tests.validate.report_night import night_report
from validate.report.data import Report

VOID = {"meta", "link", "img", "br", "input", "source", "base"}


@dataclass
class Element:
    """One element, its attributes, the elements around it and the text directly in it."""

    tag: str
    attributes: dict[str, str | None]
    path: tuple[str, ...]
    text: str = ""
    children: list[Element] = field(default_factory=list)


class Page(HTMLParser):
    """All elements of a page in order; an element that is not closed where it was opened is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {[element.tag for element in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element and go into it."""
        element = Element(tag, dict(attrs), tuple(e.tag for e in self._open))
        self.elements.append(element)
        if self._open:
            self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        """Leave the element; only the innermost can be left."""
        assert self._open, f"</{tag}> closes nothing"
        opened = self._open.pop()
        assert opened.tag == tag, f"</{tag}> closes <{opened.tag}>"

    def handle_data(self, data: str) -> None:
        """Note the text of the innermost element."""
        if self._open:
            self._open[-1].text += data

    def named(self, *tags: str) -> list[Element]:
        """All elements with one of these names."""
        return [element for element in self.elements if element.tag in tags]

    def skeleton(self) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Which elements there are, where, with which attributes: everything but text and values."""
        return [(e.tag, e.path, tuple(sorted(e.attributes))) for e in self.elements]


def filled(report: Any, text: str) -> Any:
    """The same report with every free text in it replaced by `text`; choices, numbers and shape stay."""
    if isinstance(report, tuple):
        return tuple(text if isinstance(part, str) else filled(part, text) for part in report)
    if not is_dataclass(report) or isinstance(report, type):
        return report
    hints = get_type_hints(type(report))
    changes: dict[str, Any] = {}
    for column in fields(report):
        value = getattr(report, column.name)
        is_free = hints[column.name] in {str, str | None} and value
        changes[column.name] = text if is_free else filled(value, text)
    return replace(report, **changes)


def hostile_report(text: str) -> Report:
    """The example night as if a log had put `text` wherever a log, a user or a scorer can put any."""
    report: Report = filled(night_report(), text)
    return report
