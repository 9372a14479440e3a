# Everything a person or CI runs. `make` lists the targets; those that need the environment install it first.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
# Without compiled files, every process of a run compiles turnwise again, and pytest rewrites every test.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help install quickstart images test test-worlds test-fast test-gpu soak up down lint format docs lock clean

VENV := .venv/bin
GPU_PYTHON = $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV)/bin/python,$(or $(wildcard $(VENV)/python),python3))
PYTEST := OMP_NUM_THREADS=1 $(VENV)/python -m pytest
FAST := not slow and not chaos and not docker and not postgres and not alone and not soak

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/installed ## create .venv/ from requirements.lock

.venv/installed: requirements.lock pyproject.toml tools/install.sh
	@bash tools/install.sh

quickstart: install ## train a tiny policy until it visibly succeeds; two minutes
	$(VENV)/turnwise train examples/quickstart.toml $(ARGS)

images: install ## install missing system packages and build the sandbox images
	@bash tools/system_parts.sh test
	@$(VENV)/turnwise sandbox build

test: images ## run every test of the core, or some tests: ARGS="tests/store -x"
	@$(if $(ARGS),$(PYTEST) $(ARGS),bash tools/run_tests.sh core)

test-worlds: images ## run every test of the shipped worlds
	@bash tools/run_tests.sh worlds

test-fast: install ## run the tests that need no Docker, PostgreSQL, engine or minutes; one to two minutes on two cores
	$(PYTEST) -m "$(FAST)" --numprocesses 2 --dist loadfile $(ARGS)

test-gpu: ## check the learner on one GPU, and engines if vLLM and Ray are installed; ARGS="--device cpu" on the CPU
	@$(GPU_PYTHON) tests/trainer/learner/gpu/check_learner.py $(ARGS)
	@$(GPU_PYTHON) tests/agents/engine/gpu/check_engine.py $(ARGS)

soak: images ## run the properties at full counts; hours
	OMP_NUM_THREADS=1 $(VENV)/python tests/soak/soak.py $(ARGS)

up: install ## create secrets and images, and start everything in compose.yaml
	@bash tools/compose/up.sh $(ARGS)

down: ## stop what `make up` started; volumes and secrets stay
	docker-compose down $(ARGS)

lint: install ## check style, types and shell scripts
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	@bash tools/shellcheck.sh
	@$(VENV)/python tools/check_files.py
	@bash tools/mypy.sh

format: install ## apply the fixes and the format of ruff
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

docs: install ## write the generated pages of docs/ from the code
	$(VENV)/python tools/reference.py

lock: ## write requirements.lock: every dependency with its version and hashes
	$(VENV)/python tools/lock.py $(ARGS)

clean: ## delete build output and caches; .venv and runs stay
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
