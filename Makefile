# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## make .venv with everything in it; does nothing when up to date

$(STAMP): pyproject.toml constraints.txt hept/attention/native.cpp hept/attention/native_blocks.h
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup  ## raw events -> datasets -> training -> evaluation -> pictures, in a few minutes
	$(BIN)/hept-train demo demo

test: setup  ## the whole test suite but for the slow tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

test-slow: setup  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

check: setup  ## style (ruff), types (mypy strict), direction of imports (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy hepdata hept cli
	$(BIN)/lint-imports

bench: setup  ## side-by-side ratios against literal implementations of the published procedure
	$(BIN)/python -m benchmarks

clean:  ## remove the environment, caches and what the demo made
	rm -rf $(VENV) demo bench-results build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info hept/attention/_native.*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
