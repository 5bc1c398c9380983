# Everything starts here, from a bare Python 3.11. Each target does all of its own set-up, in .venv.

SHELL := bash
VENV := .venv
PY := $(VENV)/bin/python
LOCK := requirements/lock.txt
PARSER := src/tracelab/readers/kineto/parser
WORKERS ?= 3
GPU_PYTHON ?= python3
RESULTS ?= gpu-check-out.tar.gz
check: WORKERS := 2

unexport PYTHONDONTWRITEBYTECODE  # each of some thousand processes would compile what it imports
unexport PYTHONPATH  # a shell that names another checkout would have its modules run
# Clusters often name their torch there.
gpu-check: export PYTHONPATH := $(PYTHONPATH)

# The lock pins what is installed, and what pip installs to build the package (newer pips ask for the second name).
# Python compiles a module when it is first imported: most of the installed ones never are.
PIP := PIP_CONSTRAINT=$(LOCK) PIP_BUILD_CONSTRAINT=$(LOCK) \
  $(PY) -m pip --disable-pip-version-check install --quiet --no-compile
LINT := $(PY) -m ruff check && $(PY) -m ruff format --check && $(PY) -m mypy
# More processes than cores: some wait for children and time limits. A process takes whole files, the longest first (tests/conftest.py).
TESTS = pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
PYTEST = $(PY) -m $(TESTS)

.DEFAULT_GOAL := help
.PHONY: demo check test bench gpu-check gpu-compare venv lint wheel parser sanitize fuzz pairs coverage docs docs-check site data clean help

demo: $(VENV)/.runtime  ## Ingest the runs in data/, run queries, check the answers, draw plots into demo-out/.
	@$(PY) demo/run.py

check: $(VENV)/.test  ## Check style and types, and run the quick tests, in about a minute.
	@$(LINT)
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} $(PYTEST) -m 'not slow' $(ARGS)

test: $(VENV)/.test $(VENV)/.trains  ## Check style and types, run all tests. WORKERS=N: processes (3); ARGS: options of pytest.
	@problems=$$(mktemp); { $(LINT); } > $$problems 2>&1 & lint=$$!; \
	$(PYTEST) -rs $(ARGS); tests=$$?; \
	wait $$lint; lint=$$?; cat $$problems; rm -f $$problems; [ $$tests = 0 ] || exit $$tests; \
	[ $$lint = 0 ] || { echo "The tests pass, but style or types do not: see above, or make lint" >&2; exit $$lint; }

bench: $(VENV)/.runtime  ## Measure speed and memory. ARGS=--peers: beside other tools; see benchmarks/run.py.
	$(PY) benchmarks/run.py $(ARGS)

gpu-check:  ## Check a GPU node in ten minutes, into gpu-check-out/. GPU_PYTHON: one with torch; ARGS: see gpu_check/run.py.
	@$(GPU_PYTHON) gpu_check/run.py $(ARGS)

gpu-compare: $(VENV)/.runtime  ## Compare what make gpu-check recorded with the queries. RESULTS=gpu-check-out.tar.gz.
	@$(PY) gpu_check/compare.py $(RESULTS)

venv: $(VENV)/.test $(VENV)/.collect  ## Make .venv with tracelab (editable), the tests' tools, and torch for collecting.
	@echo "Now: source $(VENV)/bin/activate"

lint: $(VENV)/.test  ## Check style (ruff) and types (mypy).
	@$(LINT)

wheel: $(VENV)/.test  ## Build the sdist and the wheel into dist/.
	@rm -rf dist
	@$(PY) -m hatchling build

parser: $(VENV)/.test  ## Compile the parser of Kineto traces (C to WebAssembly), to the same bytes, with its layout.
	$(PY) -P $(PARSER)/generate_layout.py
	$(PY) -m ziglang cc @$(PARSER)/c/flags.txt -o $(PARSER)/parser.wasm $(PARSER)/c/parser.c
	@chmod 644 $(PARSER)/parser.wasm

sanitize: $(VENV)/.test  ## Check the parser natively, under AddressSanitizer and UBSan. ARGS=--seconds N: of fuzzing (60).
	@$(PY) -m tests.native.sanitize $(ARGS)

fuzz: $(VENV)/.test  ## Damage files of each reader 1,000 times, and Kineto traces for a minute. ARGS: only tests/fuzz/damage.py, with these.
	$(PY) -m tests.fuzz.damage $(ARGS)
	$(if $(ARGS),,$(PY) -m tests.fuzz.kineto_damage --seconds 60)

pairs: $(VENV)/.test $(VENV)/.trains  ## Run every workload and pair of options of collect train under the fake CUDA, in half an hour.
	TRACELAB_ALL_PAIRS=1 $(PYTEST) tests/collect/test_option_pairs.py $(ARGS)

coverage: $(VENV)/.test $(VENV)/.trains  ## Measure which lines of tracelab.collect its tests execute: 90 % at least. ARGS: of pytest.
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@$(PY) -m coverage run -m $(TESTS) tests/collect $(ARGS); tests=$$?; \
	$(PY) -m coverage combine --quiet && $(PY) -m coverage report && exit $$tests

docs: $(VENV)/.test  ## Write the reference, the cookbook and the console examples of docs/ and README.md.
	$(PY) docs/generate.py

docs-check: $(VENV)/.test  ## Fail if make docs would change a page or a picture: runs each example, in two minutes.
	$(PY) docs/generate.py --check

site: $(VENV)/.test  ## Build the documentation site into site/; open site/index.html.
	@$(PY) -m zensical build --strict

data: $(VENV)/.runtime  ## Write data/generated again, to the same bytes.
	$(PY) data/generate.py
	$(PY) data/counted.py
	$(PY) data/sweeps.py
	$(PY) data/printed.py

clean:  ## Remove what the other targets made, but for .venv.
	rm -rf build dist demo-out site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

help:  ## Print this.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The environment grows by stamps: each is younger than what it was made from, and a changed lock makes all anew.

$(VENV)/.made: $(LOCK)
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3; do \
	  $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  $$python -m venv $(VENV) && touch $@ && exit; exit 1; \
	done; \
	echo "tracelab needs Python 3.11 or newer with its venv module; name one with PYTHON=/path/to/python3.11" >&2; exit 1

$(VENV)/.runtime: $(VENV)/.made pyproject.toml
	@echo "Installing tracelab and what it needs into $(VENV) (once)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.runtime requirements/test.txt
	@echo "Installing what the tests need into $(VENV) (once)"
	@$(PIP) --requirement requirements/test.txt
	@touch $@

$(VENV)/.trains: $(VENV)/.test requirements/torch_for_tests.py
	@echo "Looking for a torch without CUDA, for the tests that train (once)"
	@PIP_CONSTRAINT=$(LOCK) $(PY) requirements/torch_for_tests.py
	@touch $@

$(VENV)/.collect: $(VENV)/.runtime
	@echo "Installing torch into $(VENV) (once; on Linux the package index may serve gigabytes of CUDA)"
	@$(PIP) --editable '.[collect]'
	@touch $@
