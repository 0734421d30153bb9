# Each target sets up its own virtual environment when there is none, and is quick when there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.installed-docs
export OMP_NUM_THREADS ?= 2

.PHONY: help demo test test-plain test-slow test-zoo lint format docs figures bench lock clean

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,docs]"
	@touch $@

demo: $(INSTALLED) ## the main job as a user meets it
	$(BIN)/credo demo --out runs/demo

test: $(INSTALLED) ## everything that must hold, in a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-plain: $(INSTALLED) ## what kernels could change, with all of them switched off
	CREDO_KERNELS=0 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" tests/mcmc tests/mcmc_others tests/contract

test-slow: $(INSTALLED) ## the long statistical checks too
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-zoo: $(INSTALLED) ## networks of torchvision, timm, transformers and torch_geometric under every method
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,zoo]"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal tests/zoo

lint: $(INSTALLED) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## put the style right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS_INSTALLED) ## the documentation, in site/
	$(BIN)/mkdocs build --strict

bench: $(INSTALLED) ## ratios against plain torch, measured here and now
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/vi.py
	$(BIN)/python benchmarks/dropout.py
	$(BIN)/python benchmarks/variational_dropout.py
	$(BIN)/python benchmarks/kernels.py

lock: $(DOCS_INSTALLED) ## write constraints.txt from what is installed
	{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | sort -f; } > constraints.new
	mv constraints.new constraints.txt

figures: $(INSTALLED) ## the pictures of README and documentation, drawn anew
	$(BIN)/python docs/gallery.py

clean: ## remove what the other targets made
	rm -rf $(VENV) site runs .pytest_cache .mypy_cache .ruff_cache
