r"""Record what Traceloop's instrumentation of the OpenAI client (openllmetry) writes, before and after it changed.

    python -m venv new && new/bin/pip install opentelemetry-instrumentation-openai openai
    new/bin/python record_traceloop.py parts
    python -m venv old && old/bin/pip install opentelemetry-instrumentation-openai==0.47.5 opentelemetry-sdk==1.37.0 \
        'openai<2' 'wrapt<2' 'setuptools<80'
    old/bin/python record_traceloop.py numbered

Recorded with opentelemetry-instrumentation-openai 0.62.4 (openai 3.57.0, opentelemetry-sdk 1.45.2) and 0.47.5
(openai 1.109.1, opentelemetry-sdk 1.37.0). The spans are in the form of the SDK's own `to_json`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from fake_openai import MESSAGES, TOOLS, serving

HERE = Path(__file__).parent


def main(dialect: str) -> None:
    """Record one call."""
    os.environ["OTEL_RESOURCE_ATTRIBUTES"] = "service.name=refund-agent"
    os.environ["TRACELOOP_TRACE_CONTENT"] = "true"
    from openai import OpenAI
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    tracing, memory = TracerProvider(), InMemorySpanExporter()
    tracing.add_span_processor(SimpleSpanProcessor(memory))
    OpenAIInstrumentor().instrument(tracer_provider=tracing)
    with serving() as address, tracing.get_tracer("agent").start_as_current_span("refund"):
        create = OpenAI(base_url=address, api_key="none").chat.completions.create
        create(model="toy@v7", messages=MESSAGES, tools=TOOLS, temperature=1.0, top_p=1.0, logprobs=True)
    spans = [json.loads(span.to_json()) for span in memory.get_finished_spans()]
    lines = "".join(json.dumps(span, separators=(",", ":")) + "\n" for span in spans)
    (HERE / f"traceloop_{dialect}.jsonl").write_text(lines)


if __name__ == "__main__":
    main(sys.argv[1])
