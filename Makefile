# Each target makes the environment it needs: git, make and Python 3.11 or newer are enough to start with.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format bench control-plane clean

demo: .venv/installed  ## see it work, without a cluster
	$(BIN)/reconcile demo

test: .venv/installed  ## all tiers that can run here; the last lines say which could not, and what to do
	$(BIN)/pytest -n auto --dist worksteal -m 'not real and not kubelet'
	$(BIN)/pytest -m 'real or kubelet'

lint: .venv/installed
	$(BIN)/pytest -q tests/test_lint.py

format: .venv/installed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/installed  ## the budgets, measured against kubectl on the same server
	$(BIN)/python -m tests.bench

control-plane:  ## build the real Kubernetes that tests run against: once, about 9 minutes
	$(PYTHON) tests/control_plane/control_plane.py build

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("This needs Python 3.11 or newer: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --editable . --group dev
	touch $@
