# `make run` gives a demo Hub, `make test` runs every check and every test. Both do their own set-up,
# on anything from a bare Debian to a machine with all of it; share/setup has one small script for each step.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV ?= .venv
PYTHON ?= python3
export PYTHON
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
setup := share/setup
# Tests mostly wait for servers to start; a file stays with one worker, which has one Hub for it.
# Files are given out in the order of tests/conftest.py.
WORKERS ?= -n 3 --dist loadfile --no-loadscope-reorder
code := jupyterhub_backendai tests examples share $(wildcard benchmarks docs)

.PHONY: help
help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: run
run: ## a demo Hub on http://127.0.0.1:8000; Ctrl-C ends it and all that it started
	@$(setup)/with-engine.sh $(MAKE) run-with-engine

.PHONY: run-with-engine
run-with-engine:
	@$(MAKE) -j2 venv-run image
	@$(setup)/run.sh

.PHONY: test
test: ## set up what the tests need, then every check and every test (PYTEST_ARGS="-k name -x" for some)
	@$(setup)/with-engine.sh $(MAKE) test-with-engine

.PHONY: test-with-engine
test-with-engine:
	@$(MAKE) -j3 venv-test test-images test-packages
	@$(MAKE) check
ifneq ($(strip $(PYTEST_ARGS)),)
	@$(VENV)/bin/python -m pytest $(WORKERS) $(PYTEST_ARGS)
else
	@$(VENV)/bin/python -m pytest $(WORKERS) --ignore=tests/browser
# Alone: a container that comes or goes changes the network, and Chromium drops what it loads then.
	@$(VENV)/bin/python -m pytest tests/browser/walk
	@$(setup)/own-network.sh $(VENV)/bin/python -m pytest -n 2 --dist loadfile tests/browser/pages tests/browser/ui tests/browser/terminal
endif

.PHONY: check
check: venv-check ## lint, format, types, and who may import whom
	@ruff check $(code)
	@ruff format --check $(code)
	@mypy
	@lint-imports

.PHONY: format
format: venv-check ## put the code into the one format
	@ruff check --fix $(code)
	@ruff format $(code)

.PHONY: docs
docs: venv-docs ## the docs as HTML, in docs/_build/html
	@sphinx-build -W --keep-going -q docs docs/_build/html

.PHONY: screenshots screenshots-with-engine
screenshots: ## the pictures in the docs, by the tests that look at every page
	@$(setup)/with-engine.sh $(MAKE) screenshots-with-engine

screenshots-with-engine: venv-test test-images
	@mkdir -p docs/images/pages
	@SCREENSHOTS=docs/images/pages $(VENV)/bin/python -m pytest -q \
	  tests/browser/pages/test_pages_access.py tests/browser/pages/test_pages_apps.py \
	  tests/browser/pages/test_pages_use.py tests/browser/pages/test_pages_images.py \
	  tests/browser/pages/test_pages_hibernate.py \
	  tests/browser/ui/test_ui_access.py
	@SCREENSHOTS=docs/images $(VENV)/bin/python -m pytest -q tests/browser/walk/test_walk_tutorial.py \
	  tests/browser/walk/test_walk_apps.py tests/browser/walk/test_walk_idle.py

.PHONY: image
image: ## the demo's and the tests' image (needs a Docker engine)
	@$(setup)/image.sh demo

.PHONY: test-images
test-images: image ## what only the tests use: a Hub in a container (examples/compose), and an image with next to nothing
	@$(setup)/image.sh plain
	@$(setup)/image.sh hub

.PHONY: test-packages
test-packages:
	@$(setup)/test-packages.sh

.PHONY: venv-run venv-check venv-test venv-docs
venv-run:
	@$(setup)/venv.sh
	@$(setup)/proxy.sh
venv-check:
	@$(setup)/venv.sh check
venv-test:
	@$(setup)/venv.sh test check postgres docs
	@$(setup)/proxy.sh
venv-docs:
	@$(setup)/venv.sh docs

.PHONY: clean
clean: ## remove what runs and tests left here (the demo's data too, not the virtual environment)
	@rm -rf .run dist build docs/_build docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis test-results
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## the virtual environment as well
	@rm -rf $(VENV)
