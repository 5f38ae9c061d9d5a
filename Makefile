# `make sample` and `make test` are all that a fresh machine needs: Python 3.11 to 3.13, make, and a package index.
PYTHON ?= python3
VENV ?= .venv
OUT ?= out/sample
WORKERS ?= 3
BIN = $(VENV)/bin
CODE = answermill benchmarks experiments files indexing pipelines ranking schemas testing tools
ENGINES = $(BIN)/pytest -m "" -rs -o faulthandler_timeout=3600
# On a terminal pip shows how far it is. It would compile all files one after the other; COMPILE takes every core, and leaves out
# packages' own tests (some have files for another Python, which is no error of ours), and what a newer Python warns of in packages. It
# compiles our code too, which many processes of the tests import at once.
PIP = if [ -t 1 ]; then quiet=; else quiet=--quiet; fi; \
	$(BIN)/python -m pip install $$quiet --disable-pip-version-check --no-compile -c constraints.txt
COMPILE = PYTHONWARNINGS=ignore::SyntaxWarning $(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib $(CODE) || true

.PHONY: sample test test-nightly test-engines test-flink test-spark test-image test-schedulers test-network test-wheel test-pythons check lint pytest docs pages format clean

sample: $(VENV)/installed                 ## run the main job on the sample web
	@echo "running the main job on the sample web: one or two minutes"
	$(BIN)/answermill sample --out $(OUT)

test: $(VENV)/installed-test              ## lint and types beside the tests; fails where one of them does
	@echo "running ruff, mypy and the tests, in $(WORKERS) processes: some 5 minutes on two cores"
	@$(MAKE) --no-print-directory --keep-going -j2 lint pytest

lint: $(VENV)/installed-test              ## its output comes in one piece, in the midst of the tests' dots
	@report=$$( ($(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy) 2>&1 ); status=$$?; \
	printf '\nruff and mypy: %s\n' "$$report"; exit $$status

pytest: $(VENV)/installed-test            ## the tests, in WORKERS processes of one thread each: one more than two cores
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 3

test-nightly: $(VENV)/installed-test test-engines    ## and the tests that guard what rarely breaks
	$(BIN)/pytest -m nightly -o faulthandler_timeout=1800 -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 3

test-engines: test-flink test-spark test-image test-schedulers test-network test-wheel test-pythons    ## on real engines; these tests skip, and say what is missing, where they cannot run

test-flink: $(VENV)/installed-test
	$(ENGINES) tests/engines/test_flink.py tests/engines/test_machines.py

test-spark: $(VENV)/installed-test
	$(ENGINES) tests/engines/test_spark.py

test-image: $(VENV)/installed-test
	$(ENGINES) tests/engines/test_image.py

test-schedulers: $(VENV)/installed-test   ## a night's run, by itself and by the Snakemake, the Airflow and the Prometheus that are on PATH
	$(ENGINES) tests/engines/test_schedulers.py

test-network: $(VENV)/installed-test      ## the whole sample where no network is
	$(ENGINES) tests/engines/test_no_network.py

test-wheel: $(VENV)/installed-test      ## the wheel in a new environment
	$(ENGINES) tests/engines/test_wheel.py

test-pythons: test-python3.11 test-python3.13   ## the sample and the tests on the oldest and the newest Python, each in an environment of its own; fails where one is missing, unless MAY_SKIP=1

test-python3.%:
	@for python in python3.$* $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.$*.*/bin/python; do \
		if $$python -c '' 2>/dev/null; then exec $(MAKE) VENV=.venv-3.$* OUT=out/sample-3.$* PYTHON=$$python sample pytest; fi; \
	done; echo "python3.$* is not on this machine, so nothing is tested with it; MAY_SKIP=1 makes that no failure"; test -n "$(MAY_SKIP)"

check: test

docs: .venv-docs/installed                ## build the site in out/site; its generated pages are in the repository
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

pages: $(VENV)/installed-test             ## write the generated pages anew: after a change of keys, columns, commands or figures
	$(BIN)/python -m docs.generate

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed; make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing AnswerMill and what it needs: about 0.9 GB to download and 3 GB on the disk (6.5 GB with torch's CUDA build), two minutes or more"
	@$(PIP) -e .
	@$(COMPILE)
	touch $@

$(VENV)/installed-test: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing AnswerMill, what it needs and the tools of the tests: about 1 GB to download, two minutes or more"
	@$(PIP) -e '.[test]'
	@$(COMPILE)
	touch $(VENV)/installed $@

# The site needs neither torch nor Java: only what turns Markdown into pages.
.venv-docs/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'mkdocs-material>=9.7,<10'
	touch $@

clean:
	rm -rf .venv* out .mypy_cache .pytest_cache .ruff_cache
