"""Record what Langfuse's package writes: a generation and its score, in the API's own types.

    python -m venv v && v/bin/pip install langfuse
    v/bin/python record_langfuse.py

Recorded with langfuse 5.0.4. Its client needs a server, so the objects are made of the types in which its API answers
and are written as that API spells them (camelCase, ISO times).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from fake_openai import MESSAGES, whole

HERE = Path(__file__).parent
TRACE = "0af7651916cd43dd8448eb211c80319c"
START = datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)


def main() -> None:
    """Record two generations, of which one keeps the server's whole answer, a tool's span and a score."""
    from langfuse.api.commons.types.observation_v2 import ObservationV2
    from langfuse.api.commons.types.score import Score_Numeric

    shared = {"trace_id": TRACE, "project_id": "p-1", "user_id": "u-1", "session_id": "sess-9", "start_time": START}
    shared |= {"end_time": START + timedelta(milliseconds=320), "metadata": {"ask_id": "ask-41"}}
    generation = {**shared, "type": "GENERATION", "model": "toy@v7", "input": MESSAGES}
    first = ObservationV2(
        id="b7ad6b7169203331",
        output=whole(),
        model_parameters={"temperature": "1", "top_p": 1, "max_tokens": "inf", "seed": "None"},
        usage_details={"input": 6, "output": 4, "total": 10},
        **generation,
    )
    second = ObservationV2(id="b7ad6b7169203332", output={"role": "assistant", "content": "Refunded."}, **generation)
    tool = ObservationV2(id="b7ad6b7169203333", type="TOOL", name="lookup", output="paid", **shared)
    scored = START + timedelta(days=1)
    score = Score_Numeric(
        id="sc-1",
        trace_id=TRACE,
        name="refund_correct",
        value=1.0,
        source="API",
        environment="production",
        timestamp=scored,
        created_at=scored,
        updated_at=scored,
        metadata={},
    )
    lines = "".join(record.json() + "\n" for record in (first, second, tool, score))
    (HERE / "langfuse.jsonl").write_text(lines)


if __name__ == "__main__":
    main()
