"""Bounds of logged numbers that every package reads alike."""

SENTINEL = -9999.0
"""A log-probability at or below it is a placeholder, never a measurement: exp of it is 0 in double precision, so
nothing samples such a token. vLLM clamps minus infinity to it (vllm PR 4149) and OpenAI fills it in; -1e4, -1e9 and
float32's lowest number lie under it."""

PLAIN_DEPARTURE = 0.01
"""Mean |ratio - 1| under which a run without any correction would do the same. The lesson's recipes had ratios within
a fraction of a percent of 1 and equal arms (Whileai course, lesson on production traces); the figure is convention,
untested."""
