"""SGLang's chat completions: ids under `response_token_ids`, `sglext` or `meta_info`, versions under `metadata`.

Send `logprobs: true` and `return_token_ids: true`, without streaming.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("sglang_chat")
