"""Record a trace that MLflow's autologging of the OpenAI client makes, with feedback and its revision.

    python -m venv v && v/bin/pip install mlflow-tracing openai
    v/bin/python record_mlflow.py

Recorded with mlflow-tracing 3.17.2 and openai 3.57.0. The trace is taken from the exporter, as no tracking server
runs, and written by the package's own `Trace.to_json`; the assessments are written by its own entities.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fake_openai import MESSAGES, TOOLS, serving

HERE = Path(__file__).parent
SCORED, REVISED = 1_796_200_000_000, 1_796_300_000_000
"""When the desk scored, and when it changed its mind, in milliseconds since 1970."""


def main() -> None:
    """Record one call."""
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"  # nobody is asked
    import mlflow
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.entities.trace_location import MlflowExperimentLocation
    from mlflow.tracing.export.mlflow_v3 import MlflowV3SpanExporter
    from openai import OpenAI

    kept: list[Any] = []
    MlflowV3SpanExporter._log_trace = lambda _, trace, **__: kept.append(trace)
    mlflow.tracing.set_destination(MlflowExperimentLocation("0"))
    mlflow.openai.autolog()
    with serving() as address, mlflow.start_span("refund") as span:
        mlflow.update_current_trace(session_id="sess-9", user="u-1", tags={"ask_id": "ask-41"})
        span.set_inputs({"order": 41})
        create = OpenAI(base_url=address, api_key="none").chat.completions.create
        create(model="toy@v7", messages=MESSAGES, tools=TOOLS, temperature=1.0, top_p=1.0, logprobs=True)
    (trace,) = kept
    desk = {"name": "refund_correct", "trace_id": trace.info.trace_id, "source": AssessmentSource("HUMAN", "desk")}
    first = Feedback(value=1.0, create_time_ms=SCORED, last_update_time_ms=REVISED, valid=False, **desk)
    second = Feedback(value=0.0, create_time_ms=REVISED, last_update_time_ms=REVISED, overrides="a-1", **desk)
    first.assessment_id, second.assessment_id = "a-1", "a-2"
    trace.info.assessments = [first, second]
    trace.info.trace_metadata = {
        name: value
        for name, value in trace.info.trace_metadata.items()
        if not name.startswith(("mlflow.source", "mlflow.user"))
    }
    trace.info.tags = {name: value for name, value in trace.info.tags.items() if not name.startswith("mlflow.")}
    (HERE / "mlflow_trace.jsonl").write_text(json.dumps(json.loads(trace.to_json()), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
