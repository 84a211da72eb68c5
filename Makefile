# Each target sets up what it needs in .venv and runs. Nothing is installed outside this folder.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test system lint format bench clients conformance wheel clean

demo: .venv/ready
	@$(BIN)/python -m colabhive_mcp demo

test: .venv/ready
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

system: .venv/ready
	$(BIN)/python -m pytest tests/system --numprocesses 2 --dist worksteal

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/ready
	$(BIN)/python -m bench

clients: .venv/ready
	$(BIN)/python -m clients

conformance: .venv/ready
	$(BIN)/python -m conformance

clean:
	rm -rf .venv .clients build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

.venv/ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[test,lint]'
	@touch $@
