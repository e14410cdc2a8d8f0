# What you need is Python 3.11 to 3.14 and Java 17 or 21; everything else is set up here, in .venv and .unskew.
.DEFAULT_GOAL := help
SHELL := /bin/bash
UNSKEW := .venv/bin/unskew

# The first Python that will do; name another one with PYTHON=...
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	"$$python" -c '$(FITS)' 2> /dev/null && { echo "$$python"; break; }; done)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv, install the pinned packages, fetch the JVM jars (all other targets do it first)
	@"$(PYTHON)" -c '$(FITS)' 2> /dev/null || { \
	echo "unskew: Python 3.11 to 3.14 is needed; $(if $(PYTHON),$(PYTHON) is not it,there is none on the PATH);" \
	"install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install python@3.13)" \
	"or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@PYTHONPATH=src "$(PYTHON)" -m unskew.deploy.installation.install $(filter setup,$(MAKECMDGOALS))

demo: setup ## The whole thing once: Kafka, a skewed stream, KEY, DYNAMIC_KEY, BOUNDED_LOAD and PLANNED compared
	@$(UNSKEW) demo

servers: setup ## InfluxDB and Prometheus for the tests and `unskew stack`: found, else built and fetched, once
	@.venv/bin/python -m tests.programs

# As many processes as cores and memory allow (tests/schedule.py); make test PROCESSES=1 overrides it.
PROCESSES ?= auto
TEST := .venv/bin/python -m pytest --numprocesses $(PROCESSES)

test: setup ## The tests for every commit: all that run within a process, and one kill of each kind
	@$(TEST) -m "not ci and not nightly and not programs"

test-fast: setup ## The tests that need neither Spark nor Kafka, with fewer random examples
	@$(TEST) -m "not slow and not spark and not kafka and not ci and not nightly" --hypothesis-profile fast

# What .ci/run runs beside `make test`.
test-ci: setup
	@$(TEST) -m "(ci or programs) and not nightly"

# The groups of `make nightly`, each of 12 minutes at most on two cores; .ci/run takes one of them in turn.
NIGHTLY := draws evidence kills documents clusters servers keyed groupings sparks image
GROUP ?= $(NIGHTLY)
# What its tests draw at random: SEED=N repeats the run that printed N.
SEED ?= random

nightly: $(GROUP:%=nightly-%) ## All that varies or is random, by groups: GROUP="evidence kills", by default all; SEED=N

$(NIGHTLY:%=nightly-%): nightly-%: setup
	@$(TEST) -m "$(MARKED)" --seed $(SEED)
nightly-%: MARKED = nightly(group='$*')
# The fast tests, which draw other examples, and more of them.
nightly-draws: MARKED = not slow and not spark and not kafka and not ci and not nightly

# The groups, for .ci/run.
groups:
	@echo $(NIGHTLY)

# The wheel alone, with the oldest and the newest packages that it takes: it is imported, and routes.
test-imports: setup
	@$(TEST) --numprocesses 0 tests/wheel/test_imports.py

ci: ## What .ci/run does: the site, all tests, the oldest and the newest Spark (25 to 45 minutes on two cores)
	@.ci/run

lint: setup ## ruff, the layers of imports, the type checker; compose file, manifests, workflows, rules and dashboards, by their own tools
	@.venv/bin/ruff check && .venv/bin/ruff format --check
	@.venv/bin/lint-imports --no-cache --no-logo
	@.venv/bin/basedpyright
	@$(TEST) --numprocesses 0 tests/deploy/test_lint.py \
	tests/monitoring/test_rules.py::test_promtool_accepts_the_configuration_and_the_rules \
	tests/dashboards/test_schema.py::test_the_dashboards_are_of_grafanas_types tests/dashboards/test_queries.py

docs: setup ## The site, in out/site; a link that leads nowhere, or an unknown name, is an error
	@.venv/bin/sphinx-build --conf-dir docs --fail-on-warning --keep-going --quiet . out/site
	@echo "out/site/index.html"

# TAG=v1.2.3 holds the version to a tag.
dist: setup ## sdist and wheel, in dist, checked as an index does; refused while project.urls has no address
	@! grep -q 'https://github.com/OWNER/' pyproject.toml || { \
	echo "unskew: set project.urls in pyproject.toml: OWNER is nobody" >&2; exit 1; }
	@$(if $(TAG),grep -qx 'version = "$(TAG:v%=%)"' pyproject.toml || { \
	echo "unskew: pyproject.toml has another version than the tag $(TAG)" >&2; exit 1; })
	@rm -rf dist && .venv/bin/python -m build --installer uv --outdir dist
	@.venv/bin/python -m twine check --strict dist/*

reproduce: setup ## The papers' tables and figures again, in out/reproduce (python -m evidence.papers --help)
	@.venv/bin/python -m evidence.papers

bench: setup ## All benchmarks, one after the other (python -m evidence lists them)
	@.venv/bin/python -m evidence all

doctor: setup ## Check this machine and say how to mend what is missing
	@$(UNSKEW) doctor

lock: setup ## Renew requirements.lock from pyproject.toml: the newest versions that fit together; and the jars' hashes
	@.venv/bin/python -m unskew.deploy.installation.packages
	@.venv/bin/python -m unskew.deploy.installation.jars

# What `up` starts: kafka, metrics (InfluxDB, Prometheus, Grafana), app, compare; see deploy/compose.yaml.
PARTS ?= kafka,metrics,app
COMPOSE := COMPOSE_PROFILES=$(PARTS) $(if $(findstring metrics,$(PARTS)),,STACK_INFLUXDB= )docker compose \
	--file deploy/compose.yaml

up: docker ## With Docker: Kafka, InfluxDB, Prometheus, Grafana and a topology (PARTS=kafka,metrics leaves some out)
	@echo "building and starting $(PARTS); waiting until all are healthy, at most 15 minutes ..."
	@$(COMPOSE) up --build --detach --wait --wait-timeout 900 || { \
	echo "unskew: not everything became healthy; \`make status\` says what, and" \
	"\`docker compose --file deploy/compose.yaml logs\` says why" >&2; exit 1; }
	@$(MAKE) --no-print-directory addresses

down: docker ## Stop what `up` started; the data are kept (DATA=delete deletes them)
	@COMPOSE_PROFILES='*' docker compose --file deploy/compose.yaml down $(if $(filter delete,$(DATA)),--volumes)

status: docker ## What of it runs, how healthy it is, and where
	@COMPOSE_PROFILES='*' docker compose --file deploy/compose.yaml ps --all
	@$(MAKE) --no-print-directory addresses

addresses:
	@$(if $(findstring metrics,$(PARTS)),\
	echo "Grafana:     http://localhost:$${STACK_GRAFANA_PORT:-3000}  (open this)"; \
	echo "Prometheus:  http://localhost:$${STACK_PROMETHEUS_PORT:-9090}"; \
	echo "InfluxDB:    http://localhost:$${STACK_INFLUXDB_PORT:-8086}";)
	@$(if $(findstring kafka,$(PARTS)),\
	echo "Kafka:       localhost:$${STACK_KAFKA_PORT:-9092}")

docker:
	@docker compose version > /dev/null 2>&1 || { \
	echo "unskew: this needs Docker with its compose plugin (docker compose version), which is not here;" \
	"without Docker: unskew kafka start, unskew stack start" >&2; exit 1; }
	@docker info > /dev/null 2>&1 || { \
	echo "unskew: no Docker engine answers; start it, or without Docker: unskew kafka start, unskew stack start" >&2; \
	exit 1; }

clean: ## Remove all that was set up or made here: environment, jars, Kafka's data, results
	@if [ -x $(UNSKEW) ]; then $(UNSKEW) stack stop || true; $(UNSKEW) kafka stop || true; fi
	rm -rf .venv .unskew out build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup demo reproduce servers test test-fast test-ci test-imports nightly $(NIGHTLY:%=nightly-%) groups ci lint docs dist bench doctor lock up down status addresses docker clean
