# What a developer types. `make` alone says what there is.
#
# Everything is installed into .venv, from the source, by a normal (not an editable) install with asserts on: tests
# run against what a user would have. Builds are incremental in build/. PYTHON=... chooses another interpreter.

PYTHON ?= python3
# Test files run side by side: most of them wait. They count and compare; nothing is timed. What fails is run once more,
# for the machines of CI are crowded: the last line says how many were, and a test that fails twice has failed.
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
# meson and ninja are found on PATH by meson-python and by the C builds.
export PATH := $(abspath $(BIN)):$(PATH)
SHELL := /bin/bash

SOURCES := $(shell find csrc proto grpcperf -type f -not -name '*.pyc' -not -path '*/__pycache__/*') \
           meson.build meson.options pyproject.toml README.md

.PHONY: help demo test test-all test-c test-py lint bench bench-deps fuzz format deps install clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: install ## measure a native server here: memory per call, throughput over connections (under a minute)
	$(BIN)/grpcperf demo

test: lint test-c test-py ## everything CI checks: lint, C tests under ASan and UBSan, Python tests

test-all: test ## that, and every experiment in its quick size with the notebooks on what it measured (5 minutes more)
	$(BIN)/pytest -q -o addopts=--import-mode=importlib tests/all

test-c: $(BIN)/.dev build/asan/build.ninja ## the C tests, under AddressSanitizer and UBSan
	meson compile -C build/asan
	meson test -C build/asan --print-errorlogs --no-rebuild

test-py: install ## the Python tests, against the installed package
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --reruns 1

lint: $(BIN)/.dev ## ruff, mypy, clang-format
	$(BIN)/ruff check grpcperf grpcperf_command.py tests tools
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'csrc/*.[ch]' 'csrc/*.cc' 'tests/*.[ch]')

bench: build/release/.installed build/bench/build.ninja ## speed, as one table of figures and ratios (not a test)
	@meson compile -C build/bench bare_core_client connection_loop
	PYTHONPATH=build/release $(BIN)/python -P tests/bench/bench.py
	PYTHONPATH=build/release $(BIN)/python -P tests/bench/allocations.py
	PYTHONPATH=build/release $(BIN)/python -P tests/bench/sampler_cost.py
	PYTHONPATH=build/release $(BIN)/python -P tests/bench/streams.py
	PYTHONPATH=build/release $(BIN)/python -P tests/bench/link.py
	PYTHONPATH=build/release $(BIN)/python -P tests/bench/compose.py
	PYTHONPATH=build/release:tests/bench $(BIN)/python -P tests/bench/compare.py

bench-deps: ## the load generators that make bench compares with, where they are missing
	@bash tools/bench-deps.sh "$(PYTHON)"

fuzz: $(BIN)/.dev ## a minute of libFuzzer on the wire room, from the kept corpus (FUZZ_SECONDS=60)
	@bash tools/fuzz.sh $(or $(FUZZ_SECONDS),60)

format: $(BIN)/.dev ## rewrite sources in the project's format
	$(BIN)/ruff check --fix-only -q grpcperf grpcperf_command.py tests tools
	$(BIN)/clang-format -i $$(git ls-files 'csrc/*.[ch]' 'csrc/*.cc' 'tests/*.[ch]')

deps: ## install the system's packages that are missing (apt, as root or with sudo)
	@bash tools/install-deps.sh "$(PYTHON)"

install: $(BIN)/.installed ## build the package and install it into .venv

clean: ## remove what was built (.venv stays)
	rm -rf build

$(BIN)/python:
	@bash tools/install-deps.sh "$(PYTHON)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

# The tools: build backend, and the packages of the `dev` extra, read from pyproject.toml so that they stand once.
$(BIN)/.dev: $(BIN)/python pyproject.toml tools/requirements.py
	@bash tools/install-deps.sh "$(PYTHON)"
	$(BIN)/python tools/requirements.py dev > build-requirements.txt
	$(BIN)/python -m pip install -q -r build-requirements.txt
	@rm -f build-requirements.txt
	@touch $@

$(BIN)/.installed: $(BIN)/.dev $(SOURCES)
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps --force-reinstall \
	  -Cbuild-dir=build/dev -Csetup-args=-Db_ndebug=false .
	@touch $@

# What `pip install .` gives a user: optimised, without asserts.
build/release/.installed: $(BIN)/.dev $(SOURCES)
	@rm -rf build/release
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps --target build/release \
	  -Cbuild-dir=build/release-objects .
	@touch $@

build/bench/build.ninja: $(BIN)/.dev
	meson setup build/bench -Dpython=false -Dtests=true -Dbuildtype=release -Db_ndebug=true

build/asan/build.ninja: $(BIN)/.dev
	meson setup build/asan -Dpython=false -Dtests=true -Db_sanitize=address,undefined -Dbuildtype=debugoptimized
