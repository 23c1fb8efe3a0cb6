# make demo and make test do all the set-up on a machine that has Python 3.11+, make and git.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Which tests `make test` runs; .ci/run asks for everything but gpu.
MARKERS ?= not slow and not browser and not postgres and not gpu
# How many processes run it, each whole files of tests; 0 runs all of it in one, as a debugger needs.
JOBS ?= 2

.PHONY: help venv demo test test-postgres lint bench clean

help:
	@echo "make demo   the whole loop on real text in a fresh lab (about 5 minutes on two cores)"
	@echo "make test   the test suite"
	@echo "make test-postgres   the tests of PostgreSQL, on a throwaway server (apt-get install postgresql)"
	@echo "make venv   only the environment, in $(VENV)"
	@echo "make lint   format, lint, types, import layers, dependencies, spelling"
	@echo "make bench  all benchmarks, written to docs/benchmarks.md"

# torch first and alone: an unpinned resolution would take a CUDA build of several gigabytes.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned environment into $(VENV) (two to five minutes, 2 GB) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,postgres,timestamps,dev]'
	@touch $@

venv: $(VENV)/.installed

demo: venv
	$(BIN)/workbench demo

test: venv
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile -m "$(MARKERS)"

test-postgres: venv
	$(BIN)/python -m pytest -q -m "postgres and not slow" tests/registry/test_store_contract.py

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/codespell

bench: venv
	$(BIN)/python benchmarks/all.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist demo-lab*
