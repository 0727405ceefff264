"""Bounds of logged numbers that every package reads alike."""

SENTINEL = -9999.0
"""A log-probability at or below it is a placeholder, never a measurement: exp of it is 0 in double precision, so
nothing samples such a token. vLLM clamps minus infinity to it (vllm PR 4149) and OpenAI fills it in; -1e4, -1e9 and
float32's lowest number lie under it."""
