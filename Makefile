# Everything a person or CI runs. `make install` first; the rest calls it where it must.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: install quickstart test soak up down lint format lock clean

VENV := .venv/bin
PYTEST := OMP_NUM_THREADS=1 $(VENV)/python -m pytest

install: .venv/installed

.venv/installed: requirements.lock pyproject.toml tools/install.sh
	@bash tools/install.sh

quickstart: install ## a tiny policy trained until it visibly succeeds
	$(VENV)/turnwise train examples/quickstart.toml $(ARGS)

test: install ## the system parts where missing, and every kind of test
	@bash tools/system_parts.sh test
	@$(VENV)/turnwise sandbox build code web
	$(PYTEST) $(ARGS)

soak: install ## the same properties at full counts; long
	@bash tools/system_parts.sh test
	@$(VENV)/turnwise sandbox build code web
	OMP_NUM_THREADS=1 $(VENV)/python tests/soak/soak.py $(ARGS)

up: install ## compose.yaml: secrets and images made, everything started
	@bash tools/compose/up.sh $(ARGS)

down: ## ends what `up` started; volumes and secrets stay
	docker-compose down $(ARGS)

lint: install
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	@bash tools/mypy.sh

format: install
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

lock:
	$(VENV)/python tools/lock.py $(ARGS)

clean: ## build leftovers and caches; never .venv or runs
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
