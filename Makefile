# `make sample` and `make test` are all that a fresh machine needs: Python 3.11 or later, make, and a package index.
PYTHON ?= python3
OUT ?= out/sample
BIN := .venv/bin

.PHONY: sample test check format clean

sample: .venv/installed                 ## run the main job on the sample web
	$(BIN)/answermill sample --out $(OUT)

test: .venv/installed-test              ## lint, types and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

check: test

format: .venv/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed; make PYTHON=python3.11"'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

clean:
	rm -rf .venv out .mypy_cache .pytest_cache .ruff_cache
