"""docs/sql.md, rendered from the headers of the .sql files: `python -m warehouse.page > docs/sql.md`."""

from __future__ import annotations

from warehouse import query

_HEAD = """# Questions in SQL

Rendered from the headers under `warehouse/sql/`; `python -m warehouse.page > docs/sql.md` writes it again.

```
tracemill sql                                               lists the saved questions
tracemill sql staleness_by_version --param trust=0.001      asks one of them
tracemill sql "select verdict, count(*) from trace_status group by all"
```

What is asked is one `select` over the tables ([tables.md](tables.md)) and the views below. It can write nothing and
read nothing but the lake. Add `at (version => N)` after a table or view to read it as it was at snapshot N.

## From plain DuckDB

The lake is a [DuckLake](https://ducklake.select): a SQLite catalog and Parquet files. DuckDB with the extensions
`ducklake` and `sqlite` reads it without this project:

```sql
install ducklake; install sqlite;  -- once
attach 'ducklake:sqlite:lake/catalog.sqlite' as lake (read_only, data_path 'lake/data/', override_data_path true);
select reason, count(*) from lake.trace_status where verdict <> 'admitted' group by all order by all;
```

Where nothing can be fetched, the wheels that are installed with this project carry both extensions:

```python
import duckdb

from warehouse.extensions import EXTENSIONS, wheel_path

connection = duckdb.connect()
for name in EXTENSIONS:
    connection.execute(f"load '{wheel_path(name)}'")
```

Read with DuckDB, write with this project: the lake has no unique constraints, and what keeps a line from landing
twice is the check that our writers make under the lake's lock.
"""


_AUDITS = """## Audits

Each selects the rows that should not be: none is a pass. `warehouse.audit.run(lake)` runs them.
"""


def markdown() -> str:
    """The whole page: how to ask, the saved questions, the views and the audits."""
    views = [query.load(path) for path in query.names("staging") + query.names("marts")]
    parts = [_HEAD, "## Saved questions\n", *map(_section, query.questions())]
    parts += ["## Views\n", *map(_section, views)]
    parts += [_AUDITS, *map(_section, map(query.load, query.names("audits")))]
    return "\n".join(parts)


def _section(question: query.Query) -> str:
    lines = [
        f"### {question.name.rsplit('/', maxsplit=1)[-1]}\n",
        question.question,
        "",
        f"{question.grain[0].upper()}{question.grain[1:]}",
        "",
    ]
    if question.parameters:
        lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{p.name}` | {p.type}{'[]' if p.many else ''} | {_default(p)} | {p.meaning} |"
            for p in question.parameters
        ]
        lines.append("")
    lines += ["| column | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in question.columns]
    return "\n".join(lines) + "\n"


def _default(parameter: query.Parameter) -> str:
    if parameter.required:
        return "required"
    return "none" if parameter.default is None else f"{parameter.default}"


if __name__ == "__main__":
    print(markdown(), end="")
