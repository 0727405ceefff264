"""When things run: settings, command line, Prefect flows. The top floor composes the others and computes nothing."""
