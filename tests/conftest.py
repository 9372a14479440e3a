"""Settings of every test: hypothesis without a time limit, and marks that follow from what a test needs.

A test that needs the machine for itself (it stops the Docker engine for everybody, or measures time) is marked `alone`
where it is defined. The others run in lanes (`tools/run_tests.sh`), one module at a time in each, so that the fixtures
of a module are made once. Modules that start whole runs come first, because they take longest.
"""

import gc
import os
import subprocess
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from turnwise.tests.console.forked_commands import ForkedCommands
from turnwise.trainer.cluster.ray_patches import shut_ray_down, start_fewer_processes

# A call after the end of Ray, from a thread or a finalizer, must fail and not start another one for later tests.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")

settings.register_profile("turnwise", deadline=None)
settings.load_profile("turnwise")

FIXTURES = {
    "docker": {"any_sandboxes", "browsers", "desktops", "docker", "sandboxes"},
    "postgres": {"server"},
}
"""Marks, and the fixtures whose tests they are given to."""
PARAMETERS = {"docker": "docker", "postgresql": "postgres"}
"""Parameters of tests and fixtures, and the mark that each stands for."""
FIRST = ("chaos", "docker", "slow", "postgres")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Start Ray in this process for the tests of one module, which leave none to others."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray as module

        shut_ray_down()
        start_fewer_processes()
        module.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield module
    shut_ray_down()


@pytest.fixture(scope="session")
def forked_commands() -> Iterator[ForkedCommands]:
    """Return the process that runs commands of the program in forks of itself."""
    with ForkedCommands() as commands:
        yield commands


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Return the folder of SmolLM2-135M-Instruct; the first use on a machine fetches and converts it."""
    script = Path(__file__).resolve().parent.parent / "tools/smollm2.sh"
    done = subprocess.run(["bash", script], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Leave modules and tests out of later searches for garbage: each took half a second once torch was imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests; under xdist, put the long modules first."""
    rank: dict[str, int] = {}
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        marks = {mark for mark, names in FIXTURES.items() if names & fixtures}
        marks |= {PARAMETERS[one] for one in parameters if isinstance(one, str) and one in PARAMETERS}
        for mark in sorted(marks):
            item.add_marker(mark)
        rank[module(item)] = min(rank.get(module(item), len(FIRST)), _rank(item))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank[module(item)])


def module(item: pytest.Item) -> str:
    """Return the path of the module of a test."""
    return item.nodeid.partition("::")[0]


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, mark in enumerate(FIRST) if item.get_closest_marker(mark)), len(FIRST))
