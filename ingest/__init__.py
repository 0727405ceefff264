"""Log lines to calls, calls to traces, late scores to outcomes: exactly once, every line accounted for."""
