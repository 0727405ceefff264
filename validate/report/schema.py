"""The published JSON Schema of report.json, rendered from the classes that hold the report.

`python -m validate.report.schema > docs/report.schema.json` writes it again.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from validate.report.data import Report


def report_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12; every field carries the sentence that stands under it in the code."""
    schema = TypeAdapter(Report).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def as_text() -> str:
    """The whole of docs/report.schema.json."""
    return json.dumps(report_schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(as_text(), end="")
