"""All tables of the lake, in the order in which data flows through them."""

from schemas.call import CALLS
from schemas.columns import Table
from schemas.ledger import ERASURES, REJECTS, RUNS, SOURCE_FILES
from schemas.outcome import OUTCOMES
from schemas.policy import EVALUATIONS, POLICIES, RESCORED
from schemas.replay import REPLAYS
from schemas.trace import TRACES
from schemas.update import UPDATES
from schemas.verdict import FINDINGS, VERDICTS

TABLES: tuple[Table, ...] = (
    SOURCE_FILES,
    CALLS,
    REJECTS,
    TRACES,
    OUTCOMES,
    POLICIES,
    RESCORED,
    VERDICTS,
    FINDINGS,
    RUNS,
    REPLAYS,
    UPDATES,
    EVALUATIONS,
    ERASURES,
)
"""Every table, once."""


def table(name: str) -> Table:
    """The table of that name; `KeyError` names the tables there are."""
    for candidate in TABLES:
        if candidate.name == name:
            return candidate
    raise KeyError(f"no table {name!r}: expected one of {', '.join(t.name for t in TABLES)}")


def markdown() -> str:
    """The whole of docs/tables.md."""
    head = (
        "# Tables\n\nRendered from `schemas/`; `python -m schemas.tables > docs/tables.md` writes it again. "
        "Columns marked null may be null; all times are UTC.\n\n"
    )
    return head + "\n".join(t.markdown() for t in TABLES)


if __name__ == "__main__":
    print(markdown(), end="")
