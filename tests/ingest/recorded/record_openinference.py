r"""Record what OpenInference's instrumentation of the OpenAI client writes, as OTLP/JSON.

    python -m venv v && v/bin/pip install openinference-instrumentation-openai openai \
        opentelemetry-exporter-otlp-json-file
    v/bin/python record_openinference.py

Recorded with openinference-instrumentation-openai 0.1.66, openinference-instrumentation 0.1.72, openai 3.57.0 and
opentelemetry-sdk 1.45.2. The file is appended to: delete it first.
"""

from __future__ import annotations

import os
from pathlib import Path

from fake_openai import MESSAGES, TOOLS, serving

HERE = Path(__file__).parent


def main() -> None:
    """Record one whole call and one streamed one."""
    os.environ["OTEL_RESOURCE_ATTRIBUTES"] = "service.name=refund-agent"
    from openai import OpenAI
    from openinference.instrumentation import using_attributes
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path=HERE / "openinference.spans.jsonl")))
    OpenAIInstrumentor().instrument(tracer_provider=tracing)
    told = using_attributes(session_id="sess-9", user_id="u-1", metadata={"ask_id": "ask-41"})
    with serving() as address, told, tracing.get_tracer("agent").start_as_current_span("refund"):
        create = OpenAI(base_url=address, api_key="none").chat.completions.create
        shared = {"model": "toy@v7", "temperature": 1.0, "top_p": 1.0, "logprobs": True}
        create(messages=MESSAGES, tools=TOOLS, extra_body={"return_token_ids": True}, **shared)
        for _ in create(messages=MESSAGES, stream=True, **shared):
            pass
    tracing.shutdown()


if __name__ == "__main__":
    main()
