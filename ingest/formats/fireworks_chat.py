"""Fireworks' chat completions: ids, and two log-probabilities a token, of which nobody says what either is of.

Send `logprobs: true` and `return_token_ids: true`. `logprob` is kept; `sampling_logprob` is compared with it.
"""

from __future__ import annotations

from ingest.formats.dialects import dialect

BODY = dialect("fireworks_chat")
