"""What the words of other systems mean here: the number of a label, and the kind of a scorer."""

from __future__ import annotations

from pydantic import Field

from schemas.errors import LineError
from schemas.outcome import SourceKind
from schemas.settings import Settings


class WordSettings(Settings):
    """What a label is worth, and who scores where another system says it in its own words."""

    labels: dict[str, dict[str, float]] = Field(default_factory=dict)
    """The number of each label, by the name of the outcome, such as ticket_outcome = { resolved = 1, reopened = 0 };
    a label that is not named here is refused. Convention, untested: none unless stated."""

    source_kinds: dict[str, SourceKind] = Field(default_factory=dict)
    """Who scores, by the word of another system, such as "langfuse/API" = "user"; docs/outcomes.md lists the words and
    what they mean unless stated here. Convention, untested: none unless stated."""

    def number_of(self, name: str | None, label: str) -> float:
        """The number of a label; raises LineError for one that the settings do not name."""
        found = self.labels.get(name or "", {}).get(label)
        if found is None:
            raise LineError(
                "bad_value",
                f"{label[:40]!r} is no number, and the settings give it none; expected a number with a decimal point, "
                f"true, false or nothing, or a label: state its number under [logs.words.labels.{name or 'NAME'}]",
            )
        return found

    def kind_of(self, system: str, word: object, usual: dict[str, SourceKind]) -> str:
        """Who scores where `system` calls it `word`; raises LineError for a word that nothing explains."""
        place = f"{system}/{word if isinstance(word, str) and word else 'none'}"
        kind = self.source_kinds.get(place) or usual.get(word if isinstance(word, str) else "")
        if kind is None:
            raise LineError(
                "bad_source_kind",
                f"{place[:80]!r} says not who scored; expected one of {', '.join(sorted(usual))}: state what it means "
                "under [logs.words.source_kinds]",
            )
        return kind


USUAL = WordSettings()
"""No label has a number, and each system's words mean what they usually do."""
