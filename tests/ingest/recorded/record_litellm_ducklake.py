"""Record the rows that litellm-ducklake-sink makes of a call: of its request, of its payload, and of a payload cut.

    python -m venv v && v/bin/pip install litellm litellm-ducklake-sink
    v/bin/python record_litellm_ducklake.py

Recorded with litellm-ducklake-sink 0.1.2, of the first payload that record_litellm.py recorded. The sink writes rows
into tables; here they are written as an export of the tables has them, one JSON object each.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> None:
    """Record three rows."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from litellm_ducklake_sink.records import build_payload_row, build_request_row

    payload = json.loads((HERE / "litellm_standard.jsonl").read_text().splitlines()[0])
    rows = [build_request_row(payload), build_payload_row(payload, 65_536), build_payload_row(payload, 256)]
    lines = "".join(json.dumps(_exported(row), separators=(",", ":"), default=str) + "\n" for row in rows)
    (HERE / "litellm_ducklake.jsonl").write_text(lines)


def _exported(row: Any) -> dict[str, Any]:
    """The columns of a row by their names."""
    return dict(row) if isinstance(row, dict) else {name: getattr(row, name) for name in row.__dataclass_fields__}


if __name__ == "__main__":
    main()
