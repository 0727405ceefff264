"""TensorRT-LLM's chat completions (`trtllm-serve`): vLLM's names, and marks of its own.

Send `logprobs: true` and ask for ids; prompt ids come as a list, a list of lists or base64.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("trtllm_chat")
