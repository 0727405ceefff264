"""vLLM's completions: four parallel arrays, ids beside them.

Send `logprobs: 0` and `return_token_ids: true`; `echo` is cut off by the ids of the prompt.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("vllm_completions")
