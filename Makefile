# Everything that people and CI run. Each target sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Half of the tests wait for something, so two runners pay off even on one core. Files stay whole.
RUNNERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(RUNNERS) --dist loadfile
STAMP := $(VENV)/.set-up

.PHONY: setup check format lint types contracts test prove demo run bench bench-fleet load lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@echo "setting up $(VENV): about half a minute"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

check: setup ## what a change has to pass: format, lint, types, contracts, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST)

format: setup ## put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## all tests; the long proofs at a small count
	$(PYTEST)

prove: setup ## the long proofs at full count; prints the seed (repeat with FENCEGATE_SEED=...)
	FENCEGATE_PROVE=1 $(BIN)/python -m pytest -s tests/scenarios tests/simulation tests/conformance tests/drill

demo: setup ## the story of two leaders, played on real processes
	$(BIN)/fencegate demo

run: setup ## a gateway with the example policies, and a sandbox CRM behind it
	$(BIN)/fencegate try

bench: setup ## the gateway beside a bare pass-through; prints ratios
	$(BIN)/python -m loadtests.bench

bench-fleet: setup ## one to three gateways on PostgreSQL, beside SQLite and a bare pass-through
	$(BIN)/python -m loadtests.fleet

load: setup ## mixed load by locust; fails if the CRM saw a duplicate
	$(BIN)/python -m loadtests.run

lock: ## pin all dependencies anew (needs uv)
	uv pip compile --quiet --universal --generate-hashes --extra dev --extra load --extra postgres \
		--no-emit-index-url --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build
