# setup: a virtual environment in .venv with everything the other targets need.
.PHONY: setup demo test lint bench clean
.DEFAULT_GOAL := test

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first interpreter that runs and is new enough; override with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

setup: $(STAMP)

# Installed again only when pyproject.toml has changed.
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "topwatch needs Python 3.11 or newer: install one, or say make PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -y -qq python3-venv; \
		else \
			echo "Python's venv module is missing. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; \
		fi; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/topwatch demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The second run has the compiler off: kernels are then plain Python, which checks indices that machine code does not.
test: lint
	$(BIN)/pytest
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest tests/conformance -m "not slow"

bench: setup
	$(BIN)/topwatch bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
