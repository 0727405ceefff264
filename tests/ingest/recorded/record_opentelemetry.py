r"""Record a model call in two dialects of the GenAI conventions with OpenTelemetry's own packages, as OTLP/JSON.

    python -m venv current && current/bin/pip install opentelemetry-sdk opentelemetry-exporter-otlp-json-file \
        opentelemetry-util-genai
    current/bin/python record_opentelemetry.py current   # messages with parts, on the span and on its event
    python -m venv events && events/bin/pip install opentelemetry-sdk opentelemetry-exporter-otlp-json-file \
        opentelemetry-instrumentation-openai-v2==2.3b0 openai httpx 'wrapt<2'
    events/bin/python record_opentelemetry.py events     # the events of 2024, as log records

Recorded with opentelemetry-sdk 1.45.2, opentelemetry-exporter-otlp-json-file 0.66b1, opentelemetry-util-genai 1.3b0,
opentelemetry-instrumentation-openai-v2 2.3b0 and openai 3.57.0. The files are appended to: delete them first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from fake_openai import MESSAGES, TOOLS, serving

HERE = Path(__file__).parent


def current(tracing: Any, logging: Any) -> None:
    """One call as an instrumentation of today tells it."""
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.types import InputMessage, OutputMessage, TextPart, ToolCallRequestPart

    handler = TelemetryHandler(tracer_provider=tracing, logger_provider=logging)
    with handler.inference("vllm", request_model="toy@v7") as call:
        call.system_instruction = [TextPart(content="You help.")]
        call.input_messages = [InputMessage(role="user", parts=[TextPart(content="refund 41?")])]
        asked = ToolCallRequestPart(id="call_1", name="lookup", arguments={"order": 41})
        call.output_messages = [OutputMessage(role="assistant", parts=[asked], finish_reason="tool_call")]
        call.temperature, call.top_p, call.top_k = 1.0, 1.0, 40
        call.response_id, call.response_model_name = "chatcmpl-ask-41-a1-c1", "toy@v7"
        call.finish_reasons = ["tool_call"]
        call.input_tokens, call.output_tokens = 6, 4


def events(tracing: Any, logging: Any) -> None:
    """One call whose messages are log records named after roles."""
    from openai import OpenAI
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=tracing, logger_provider=logging)
    with serving() as address:
        create = OpenAI(base_url=address, api_key="none").chat.completions.create
        create(model="toy@v7", messages=MESSAGES, tools=TOOLS, temperature=1.0, top_p=1.0, logprobs=True)


def main(dialect: str) -> None:
    """Record one call in a dialect, under a span of its agent."""
    os.environ["OTEL_RESOURCE_ATTRIBUTES"] = "service.name=refund-agent"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    if dialect == "current":
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
        os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_and_event"
        os.environ["OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"] = "true"
    from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter
    from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    tracing, logging = TracerProvider(), LoggerProvider()
    tracing.add_span_processor(BatchSpanProcessor(FileSpanExporter(path=HERE / f"opentelemetry_{dialect}.spans.jsonl")))
    exporter = FileLogExporter(path=HERE / f"opentelemetry_{dialect}.logs.jsonl")
    logging.add_log_record_processor(BatchLogRecordProcessor(exporter))
    with tracing.get_tracer("agent").start_as_current_span("refund"):
        {"current": current, "events": events}[dialect](tracing, logging)
    tracing.shutdown()
    logging.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
