"""OpenAI's chat completions, and those of every server that adds nothing to them: no ids, so never trainable."""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("openai_chat")
