# setup: a virtual environment in .venv with everything the other targets need.
.PHONY: setup lock java servers demo test lint docs words coverage bench kills hosts fuzz cache-stress clean
.DEFAULT_GOAL := test

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first interpreter that runs and is new enough; override with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

setup: $(STAMP) java

AS_ROOT_ON_DEBIAN := [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq

# Spark runs on Java 17 or newer; everything else does without.
HAS_JAVA := version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
	| sed -n 's/.* version "\([0-9]*\).*/\1/p'); test "$${version:-0}" -ge 17

java:
	@{ $(HAS_JAVA); } \
		|| { $(AS_ROOT_ON_DEBIAN) && { $(INSTALL) openjdk-17-jre-headless || $(INSTALL) default-jre-headless; }; } \
		|| echo "Spark needs Java 17 or newer. On Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless" >&2

# Tests start real servers of their own, and skip those that are not there. Kafka comes as jars when a test needs it.
servers:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
		|| { $(AS_ROOT_ON_DEBIAN) && $(INSTALL) postgresql; } \
		|| echo "PostgreSQL is missing, its tests skip. On Debian or Ubuntu: sudo apt-get install postgresql" >&2
	@PATH="$$PATH:/usr/sbin" command -v mosquitto >/dev/null \
		|| { $(AS_ROOT_ON_DEBIAN) && $(INSTALL) mosquitto; } \
		|| echo "Mosquitto is missing, its tests skip. On Debian or Ubuntu: sudo apt-get install mosquitto" >&2

# The versions that CI and everybody else develops with, for all supported versions of Python at once.
LOCK := requirements-dev.txt

# Installed again only when pyproject.toml or the lock file has changed.
$(STAMP): pyproject.toml $(LOCK)
	@test -n "$(PYTHON)" || { echo "topwatch needs Python 3.11 or newer: install one, or say make PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -y -qq python3-venv; \
		else \
			echo "Python's venv module is missing. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; \
		fi; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --constraint $(LOCK)
	@touch $@

# The newest versions that pyproject.toml allows; then run `make test`. The file names no package index, so that it also
# serves behind a mirror.
lock:
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --no-config --universal --upgrade --python-version 3.11 --extra dev --no-annotate \
		--custom-compile-command "make lock" pyproject.toml --output-file $(LOCK)

# From the start each time: by the checkpoint of an earlier run, all rows are read. Without Java there is the demo without Spark.
demo: setup
	@if { $(HAS_JAVA); }; then \
		rm -rf examples/demo && $(BIN)/topwatch run examples/demo.yml --once && printf '%s\n' $(DEMO_IS_OVER); \
	else \
		$(BIN)/topwatch demo; \
	fi

DEMO_IS_OVER := '' \
	'examples/demo/changes     what entered and left the ten answers and when, as Parquet' \
	'examples/demo/checkpoint  the window and the offset in the stream that a next run would go on from' \
	'' \
	'Try next:' \
	'  $(BIN)/topwatch explain examples/demo.yml    which algorithm serves which query, and why' \
	'  $(BIN)/topwatch demo                         ten such queries in one process without Spark, until Ctrl-C' \
	'  $(BIN)/python -c "import pandas; print(pandas.read_parquet(\"examples/demo/changes\").sort_values(\"at\").tail())"' \
	'and write a pipeline of your own: docs/how-to/write-a-pipeline.md'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_module_names.py
	$(BIN)/python tools/check_exceptions.py
	$(MKDOCS)

# The documentation as a site in build/docs; strict: a link that leads nowhere is an error.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

docs: setup
	$(MKDOCS)

# The words of tools/words.toml that are still there, by area.
words: setup
	$(BIN)/python tools/check_words.py --report

# Spark waits a lot, so that its tests run in two processes, file by file. The last run has the compiler off: kernels
# are then plain Python, which checks indices that machine code does not.
SPREAD := -n auto --maxprocesses 4 --dist worksteal
ON_SPARK := tests/spark tests/services/test_jdbc.py tests/services/test_kafka.py
WITHOUT_SPARK := $(addprefix --ignore ,$(ON_SPARK))

test: lint servers
	$(BIN)/pytest $(SPREAD) $(WITHOUT_SPARK)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder $(ON_SPARK)
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest $(SPREAD) tests/conformance -m "not slow"

# Which lines of the library the tests run, Spark's part left out. The report is in build/coverage/html. Machine code
# cannot be traced, so that the conformance suite runs with the compiler off, and kernels count there; all other tests
# run compiled, as in `make test`. Takes longer than `make test`.
coverage: setup servers
	rm -rf build/coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest $(SPREAD) --cov --cov-report= tests/conformance -m "not slow"
	$(BIN)/pytest $(SPREAD) --cov --cov-append --cov-report= $(WITHOUT_SPARK) --ignore tests/conformance
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

bench: setup
	$(BIN)/topwatch bench

# Kills a run on Spark twenty times for each kind of pipeline and compares what it has written. Takes an hour.
kills: setup
	$(BIN)/python -m tests.support.crashes.kills --kills 20

# Random cases against the oracle, and input that is changed at random: see docs/how-to/fuzz-and-test.md. What fails is
# made small and saved in fuzz-failures/. BOUNDSCHECK=1: kernels that check their indices.
MINUTES ?= 30
SEED ?=
TARGETS ?=
BOUNDSCHECK ?=

fuzz: setup
	$(if $(BOUNDSCHECK),NUMBA_BOUNDSCHECK=1) $(BIN)/python -m tests.fuzz \
		--minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(TARGETS),--targets $(TARGETS))

# Runs on several hosts, each a set of namespaces of this machine; kills, loses and slows down. Takes half an hour, as root.
hosts: setup
	$(BIN)/python -m tests.support.hosts

# Fills empty kernel caches from eight processes at once, kills some, and tests what is there. Takes some hours.
cache-stress: setup
	$(BIN)/python -m tests.support.cache_stress --rounds 50

clean:
	rm -rf fuzz-failures $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis examples/demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
