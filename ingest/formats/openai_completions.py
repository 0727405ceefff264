"""OpenAI's completions, and those of SGLang, Fireworks, Together and whatever else speaks the shape.

Servers that add ids are read like vLLM; `calls.engine` names them.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("openai_completions")
