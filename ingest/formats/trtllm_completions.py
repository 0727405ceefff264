"""TensorRT-LLM's completions (`trtllm-serve`): vLLM's names, prompt ids at the head of the response."""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("trtllm_completions")
