# Everything runs in a virtual environment of its own; only Python >= 3.11 and make are needed.
PYTHON ?= python3
VENV   ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin
# `pip install --group` came with pip 25.1.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DEMO := wideproof-demo
TORCH := $(VENV)/torch

.PHONY: help demo test test-all test-torch torch test-matrix faults lint types docs rocq gallery notebooks page benchmark release-check clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 20

demo: $(VENV)/.installed  ## prove that training fits handwritten digits, about ten seconds
	rm -rf $(DEMO)
	$(BIN)/wideproof prove --out $(DEMO)
	@echo "Open $(DEMO)/report.html for the report."

# One thread of BLAS for each worker: two of them on two cores with two threads each take three times as long.
# What one worker has compiled, the others read. LLVM gets every program in one piece instead of up to 32: less work in all.
COMPILED := OPENBLAS_NUM_THREADS=1 JAX_COMPILATION_CACHE_DIR=$(abspath $(VENV))/compiled \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 XLA_FLAGS="$(XLA_FLAGS) --xla_cpu_parallel_codegen_split_count=1"
# Files are handed out in this order, each to one worker (tests/conftest.py): short doctests last, so that both end together.
PYTEST := $(COMPILED) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder \
	--doctest-modules --doctest-glob=README.md tests tools README.md src

# The lab's page is tested in the Chromium that is installed; without one these tests are skipped.
BROWSER := $(firstword $(shell for one in chromium chromium-browser google-chrome; do command -v $$one; done; true))
SAY_BROWSER = @echo "$(if $(BROWSER),The lab's page is tested in $(BROWSER).,No Chromium here: the lab's page is not tested.)"

test: $(VENV)/.dev  ## run the tests, without the slow ones
	$(SAY_BROWSER)
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.dev  ## run all tests, minutes
	$(SAY_BROWSER)
	$(PYTEST)

# PyTorch has an environment of its own, in which only the tests run that need it.
test-torch: torch  ## test what takes PyTorch modules, GPyTorch, BoTorch, GPJax, skops; installed first, for the CPU
	$(COMPILED) $(TORCH)/bin/python -m pytest -n $(WORKERS) tests/networks/exchange/test_torch.py \
		tests/networks/exchange/test_heads_torch.py tests/kernels/test_modules.py tests/proving/test_follow_torch.py \
		tests/adapters tests/estimators/test_skops.py

torch: $(TORCH)/.installed

test-matrix: $(BIN)/python  ## quick tests on Python 3.11 to 3.14, oldest and newest JAX
	$(BIN)/python tools/matrix.py

faults: $(VENV)/.dev  ## plant fifty faults in a copy and see which the tests catch, an hour
	$(COMPILED) $(BIN)/python tools/faults.py --out faults.jsonl

lint: $(VENV)/.dev  ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## check types
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.docs  ## build the site into site/; open site/index.html
	$(BIN)/python benchmarks/page.py --check
	$(BIN)/python docs/gallery.py --check
	$(BIN)/python docs/notebooks.py --check
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs site
	$(BIN)/python docs/_ext/inventory.py site

# Nothing but coqc and CoqInterval is needed: no Python package besides the standard library.
rocq:  ## compile the theories in Rocq and have its kernel check the examples
	$(PYTHON) tools/rocq.py

gallery: $(VENV)/.installed  ## run the examples again for the site's gallery, minutes
	$(BIN)/python docs/gallery.py

notebooks: $(VENV)/.installed  ## run the tutorials again for their notebooks, minutes
	$(BIN)/python docs/notebooks.py

# Nothing but Python is needed.
page:  ## write the lab's bench as one file that opens in a browser without an installation: wideproof-page.html
	PYTHONPATH=src $(PYTHON) -m wideproof.lab.alone wideproof-page.html

benchmark: $(VENV)/.dev  ## measure steps per second (PyTorch is compared if it is installed)
	$(BIN)/python benchmarks/training.py

release-check: $(VENV)/.dev  ## compare versions (TAG=v1.2.3, too), build, install elsewhere, run the demo from the wheel, verify it without JAX
	$(BIN)/python tools/release_check.py $(if $(TAG),--tag "$(TAG)")

clean:  ## remove everything that make wrote
	rm -rf $(VENV) .matrix $(DEMO) wideproof-page.html site dist faults.jsonl .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp file for each set of dependencies, made again when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(PIP) install --group dev
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) install --group docs
	touch $@

$(TORCH)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade "pip>=25.1"
	$(TORCH)/bin/python -m pip --disable-pip-version-check --quiet install --editable . --group torch
	touch $@
