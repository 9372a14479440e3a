"""Docker contains every attack; the local backend contains every attack that it claims to contain."""

import asyncio

import pytest
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.selfcheck.attack import AttackResult, Verdict
from turnwise.sandbox.selfcheck.run import ATTACKS, run_attacks

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.alone]
NAMES = [each.name for each in ATTACKS if not each.name.startswith("left:")]
"""Leaks through a reset are cases of ``test_conformance``."""
UNCLAIMED = ("inode fill", "closed connections")
"""Only two unclaimed attacks are run on the local backend, because such attacks take memory of the machine."""
CLAIMED = {None, *BubblewrapBackend.capabilities.contains}
LOCAL = [each.name for each in ATTACKS if each.name in NAMES and (each.needs in CLAIMED or each.name in UNCLAIMED)]


def outcomes_of(name: str, only: list[str]) -> dict[str, AttackResult]:
    async def work() -> list[AttackResult]:
        backend = make_backend(name, "tests", allow_untrusted=True)
        try:
            return await run_attacks(backend, only=only)
        finally:
            await backend.close()

    return {outcome.name: outcome for outcome in asyncio.run(work())}


@pytest.fixture(scope="module")
def docker() -> dict[str, AttackResult]:
    return outcomes_of("docker", NAMES)


@pytest.fixture(scope="module")
def local() -> dict[str, AttackResult]:
    return outcomes_of("local", LOCAL)


@pytest.mark.parametrize("name", NAMES)
def test_docker_contains(docker: dict[str, AttackResult], name: str) -> None:
    outcome = docker[name]
    assert outcome.verdict is Verdict.HELD, outcome.detail
    assert outcome.ok, f"the sibling took {outcome.sibling_ms:.0f} ms"


@pytest.mark.parametrize(
    ("name", "made"),
    [("shared memory bomb", "96 MiB"), ("message bomb", "2 MiB"), ("semaphore bomb", "8000 semaphores")],
)
def test_docker_refuses_system_v_objects_before_they_fill_the_memory(
    docker: dict[str, AttackResult], name: str, made: str
) -> None:
    assert docker[name].detail == f"{made}, then exit 0"


@pytest.mark.parametrize("name", LOCAL)
def test_local_contains_what_it_claims(local: dict[str, AttackResult], name: str) -> None:
    assert local[name].ok, local[name].detail


def test_local_reports_what_it_does_not_contain(local: dict[str, AttackResult]) -> None:
    unclaimed = {outcome.name for outcome in local.values() if outcome.verdict is Verdict.UNCLAIMED}
    assert unclaimed == set(UNCLAIMED)
