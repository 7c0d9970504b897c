# `make demo` and `make test` do all the set-up: they need Python 3.11 or later, git and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test lint types quick docs dashboards goldens bench clean

demo: $(VENV)/installed
	$(BIN)/inferlog demo

test: lint types $(VENV)/installed
	$(PYTEST) --durations=5

lint: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/installed
	$(BIN)/mypy

# Everything that needs no server of others and little real time. `make test` fails in CI where a tool is missing, and skips elsewhere.
quick: $(VENV)/installed
	$(PYTEST) -m "not prometheus and not slow"

docs: $(VENV)/installed
	$(BIN)/python docs/generate.py

dashboards: $(VENV)/installed
	$(BIN)/python -m dashboards.generate

# Rewrite the golden expositions after a change that is meant; read the diff.
goldens: $(VENV)/installed
	$(PYTEST) tests/test_goldens.py tests/test_rule_goldens.py --update-goldens

bench: $(VENV)/installed
	$(BIN)/python bench/throughput.py

$(VENV)/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("inferlog needs Python 3.11 or later, set PYTHON=" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
