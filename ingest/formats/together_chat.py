"""Together's chat completions: ids as JSON numbers, in streams one bare log-probability and one id a chunk.

Send `logprobs: 1`, and `echo: true` for the ids of the prompt.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("together_chat")
