# The portal's commands. `make help` lists them; only Python >= 3.11 is needed on the machine.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help demo up test matrix cluster processes journeys check bench crash soak mutants pictures docs clean lock image

# Recipes run in the checkout, so that no path of it, with spaces or not, stands in a rule.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# Tests wait for servers half of the time, so two of them share a core; Valkey has a database for each of 16 workers.
JOBS ?= $(shell jobs=$$((2 * $$(getconf _NPROCESSORS_ONLN))); echo $$((jobs < 16 ? jobs : 16)))
# Whole portals that run at once. Two journeys keep two cores busy; tests that start and stop processes wait more, so three fit.
PORTALS ?= 2
PROCESSES ?= 3
N ?= 1000
# What `make crash` and `make soak` draw by chance; they tell it, and it repeats them.
PORTAL_TEST_SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d " ")
PYTEST_ARGS ?=
# Some machines ask Python to keep no bytecode: each of the hundreds of processes of the tests would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

$(STAMP): requirements.lock
	@found=
	for candidate in python3.13 python3.12 python3.11 python3 python; do
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; break; fi
	done
	[ -n "$$found" ] || { echo "make: no Python >= 3.11 found on PATH" >&2; exit 1; }
	[ -x $(PYTHON) ] && $(PYTHON) -c '' 2>/dev/null || { echo "making $(VENV) with $$($$found --version)"; rm -rf $(VENV); "$$found" -m venv $(VENV); }
	echo "installing $$(grep -c '^[a-z].*==' requirements.lock) pinned packages, every file checked against requirements.lock (a minute or two)"
	$(PYTHON) -m pip install --disable-pip-version-check --require-hashes --no-deps --no-compile --progress-bar off -r requirements.lock \
	  | awk '/^Collecting/ {printf "  %s\n", $$2; fflush()} /^Installing collected/ {print "  installing all of them"; fflush()}'
	# With all cores, which pip does with one. A package may have files for other versions of Python, which do not compile.
	$(PYTHON) -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
	touch $(STAMP)

demo: $(STAMP) ## Train a real model, deploy it, call it, then serve (ONCE=1: end after that)
	@exec $(PYTHON) manage.py demo $(if $(ONCE),--once)

up: $(STAMP) ## Start the portal and everything it needs; data stays in PORTAL_DATA_DIR (.data)
	@exec $(PYTHON) manage.py up

test: $(STAMP) ## Run the default suite (CHANGED=1: what reaches the changed lines; BASE=main: changed since that branch)
	@$(PYTHON) -m $(if $(CHANGED),tests.mutants.changed $(if $(BASE),--base $(BASE)),pytest) -n $(JOBS) --dist worksteal --ignore=tests/architecture -m "not matrix and not cluster and not journey and not processes and not crash" $(PYTEST_ARGS)

matrix: $(STAMP) ## Run the second tier: whole tables (pages, people, planted failures) and slow variants
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal -m "matrix and not cluster" $(PYTEST_ARGS)

cluster: $(STAMP) ## Run the tests on a real control plane, where one can be started (CLUSTER=all: all of them)
	@RECORD=1 exec bash .ci/run build cluster

processes: $(STAMP) ## Start, stop and kill whole portals, pods and databases, which takes long
	@$(PYTHON) -m pytest -n $(PROCESSES) --dist worksteal -m "(processes or crash) and not cluster" $(PYTEST_ARGS)

journeys: $(STAMP) ## Go through a running portal in Chromium as people do, by clicking only
	@$(PYTHON) -m pytest tests/journeys -n $(PORTALS) --dist worksteal --durations=0 --durations-min=0.5 $(PYTEST_ARGS)

check: $(STAMP) ## Lint, types, layers and other rules for the sources, templates, migrations, deployment checks, API schema
	@run() { echo "--- $$*"; "$$@"; }
	bin=$(VENV)/bin
	data=$$(mktemp -d); trap 'kill $$types 2> /dev/null || true; rm -rf "$$data"' EXIT
	# Type checking uses one core and takes about as long as all other checks together, so it runs beside them.
	$$bin/mypy . > "$$data/types" 2>&1 & types=$$!
	run $$bin/ruff check .
	run $$bin/ruff format --check .
	run $$bin/lint-imports
	# In one process, which parses each file once.
	run $$bin/pytest tests/architecture -q -m "not matrix"
	if [ -n "$$(find templates -name '*.html' -print -quit)" ]; then run $$bin/djlint --lint --quiet templates; fi
	export PORTAL_DATA_DIR=$$data
	run $$bin/python manage.py makemigrations --check --dry-run --skip-checks
	PORTAL_SECRET_KEY=$$($$bin/python -c 'import secrets; print(secrets.token_urlsafe(50))')
	export PORTAL_SECRET_KEY PORTAL_PUBLIC_URL=https://portal.example.org PORTAL_LIVE_URL=https://live.portal.example.org PORTAL_KUBECONFIG=in-cluster PORTAL_TRUSTED_PROXIES=10.0.0.0/8
	run $$bin/python manage.py check --deploy --fail-level WARNING
	run $$bin/python manage.py spectacular --validate --fail-on-warn --file "$$data/schema.yaml"
	echo "--- $$bin/mypy ."
	wait $$types || failed=$$?
	cat "$$data/types"
	types=; exit $${failed:-0}

bench: $(STAMP) ## Run the benchmarks: ratios against a limit measured in the same run
	@exec $(PYTHON) -m benchmarks

crash: $(STAMP) ## Kill processes N times (N=1000); nothing may be lost or doubled
	@PORTAL_TEST_SEED=$(PORTAL_TEST_SEED) PORTAL_TEST_CRASHES=$(N) $(PYTHON) -m pytest -m crash $(PYTEST_ARGS)

soak: $(STAMP) ## Run the generated tests with large counts
	@PORTAL_TEST_SEED=$(PORTAL_TEST_SEED) PORTAL_TEST_EFFORT=soak $(PYTHON) -m pytest --timeout=7200 -n $(JOBS) --hypothesis-seed=$(PORTAL_TEST_SEED) \
	  $$(grep -lrE --include="test_*.py" "tests\.effort|mark\.crash" tests) $(PYTEST_ARGS)

mutants: $(STAMP) ## Plant faults one by one; which of them do the tests find?
	@$(PYTHON) -m tests.mutants reach -n $(JOBS) || echo "tests failed without any fault: what they catch is worth nothing" >&2
	$(PYTHON) -m tests.mutants run -n $(JOBS) --anew
	$(PYTHON) -m tests.mutants report

pictures: $(STAMP) ## Take the pictures of docs/reference/pages.md anew, in a portal of its own
	@$(PYTHON) -m tests.journeys.pictures

docs: $(STAMP) ## Write the parts of docs/reference that come from the code
	@exec $(PYTHON) -m docs.generate

image: ## Build the container image (needs a container engine)
	@docker build --file deploy/Dockerfile --tag ml-platform-portal .

clean: ## Remove what was generated: .venv, .data, caches
	@rm -rf $(VENV) .data .demo .mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

lock: $(STAMP) ## Pin all packages anew from pyproject.toml
	@pin() { $(VENV)/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header "$$@"; }
	pin --group laptop --group dev -o requirements.lock
	# Parts of it, in the versions that the tests run with: what production installs, and what a laptop has besides.
	pin --constraint requirements.lock -o deploy/requirements.lock
	pin --constraint requirements.lock --group laptop -o deploy/laptop.lock
