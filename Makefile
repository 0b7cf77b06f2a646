# Every target sets up what it needs; `make help` lists them.
#
#   PYTHON       interpreter for .venv; by default the first of the list below that is 3.11 or newer
#   TORCH        version of torch to install; by default the tested version
#   TORCH_INDEX  an additional package index, such as that of PyTorch's CPU builds
is_new  = import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3 python,\
            $(shell $(name) -c '$(is_new)' >/dev/null 2>&1 && echo $(name))))
TORCH  ?= $(shell grep '^torch==' constraints.txt)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check install $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-pages test-slow test-real check bench docs faults clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv with everything installed; does nothing if up to date

# The second installation must not replace the torch of the first.
$(STAMP): pyproject.toml constraints.txt hept/attention/kernels/native.cpp hept/attention/kernels/native_blocks.h
	@"$(PYTHON)" -c '$(is_new)' 2>/dev/null || { \
	  echo "error: PYTHON: found $(if $(PYTHON),$(PYTHON) missing or too old,none on PATH);" \
	    "expected Python 3.11 or newer; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Setting up $(VENV) with $$("$(PYTHON)" --version): downloads $(TORCH) first, with CUDA up to 4 GB"
	"$(PYTHON)" -m venv $(VENV)
	$(PIP) '$(TORCH)'
	@$(BIN)/python -c 'from importlib.metadata import version; print("torch==" + version("torch"))' > $(VENV)/torch.txt
	$(PIP) --constraint $(VENV)/torch.txt --editable '.[dev]'
	@touch $@

demo: setup  ## raw events -> datasets -> training -> evaluation -> pictures, in a few minutes
	$(BIN)/hept-train demo demo

test: setup  ## the whole test suite except the three below
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

test-pages: setup  ## every command and code block of the documentation, the notebooks and the examples of --help
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m pages

test-slow: setup  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-real: setup  ## the tests on real files, in the folder that HEPT_REAL_FILES names (CONTRIBUTING.md)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'real_files and not slow'

check: setup  ## style (ruff), types (mypy strict), direction of imports (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy hepdata hept cli
	$(BIN)/lint-imports

bench: setup  ## side-by-side ratios against literal implementations of the published procedure
	$(BIN)/python -m benchmarks

docs: setup  ## the documentation as a site in docs/_build, offline, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build
	@echo "Open docs/_build/index.html"

faults: setup  ## thousands of injected faults: kills, damaged files, full disks, competing writers
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.faults

clean:  ## remove the environment, caches and the demo's files
	rm -rf $(VENV) demo bench-results build .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/settings.md *.egg-info hept/attention/kernels/_native.*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
