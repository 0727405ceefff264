"""vLLM's chat completions: the best case, ids and log-probabilities of every sampled token and the ids of the prompt.

Send `logprobs: true`, `return_token_ids: true`, `return_weight_versions: true` and every sampling parameter.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("vllm_chat")
