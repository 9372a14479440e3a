"""Every attack on a Docker sandbox is held; on a local one, every one that it says it holds."""

import asyncio

import pytest
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.selfcheck.attack import AttackResult, Verdict
from turnwise.sandbox.selfcheck.attacks.run import ATTACKS, run_attacks

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.alone]
NAMES = [each.name for each in ATTACKS if not each.name.startswith("left:")]
"""What is left over after a reset is ``test_conformance``'s."""
LOSES_ITS_BOX = {"hiding from the killer"}
"""Contained, but at the cost of the attacker's own box: docs/sandboxes.md says why."""
LOCAL = [
    each.name
    for each in ATTACKS
    if each.name in NAMES and ("local" not in each.unclaimed or each.name in ("inode fill", "system call filter"))
]
"""What it does not claim to hold is tried once for each kind: it costs memory of the machine."""


def outcomes_of(name: str, only: list[str]) -> dict[str, AttackResult]:
    async def work() -> list[AttackResult]:
        held = make_backend(name, "tests", allow_untrusted=True)
        try:
            return await run_attacks(held, only=only)
        finally:
            await held.close()

    return {outcome.name: outcome for outcome in asyncio.run(work())}


@pytest.fixture(scope="module")
def docker() -> dict[str, AttackResult]:
    return outcomes_of("docker", NAMES)


@pytest.fixture(scope="module")
def local() -> dict[str, AttackResult]:
    return outcomes_of("local", LOCAL)


@pytest.mark.parametrize("name", NAMES)
def test_docker_holds(docker: dict[str, AttackResult], name: str) -> None:
    outcome = docker[name]
    assert outcome.verdict is Verdict.HELD, outcome.detail
    assert outcome.ok, f"its sibling took {outcome.sibling_ms:.0f} ms"
    assert outcome.sandbox != "lost" or name in LOSES_ITS_BOX, outcome.detail


@pytest.mark.parametrize("name", LOCAL)
def test_local_holds_what_it_claims(local: dict[str, AttackResult], name: str) -> None:
    assert local[name].ok, local[name].detail


def test_local_says_what_it_does_not_hold(local: dict[str, AttackResult]) -> None:
    told = {outcome.name for outcome in local.values() if outcome.verdict is Verdict.UNCLAIMED}
    assert told == {"inode fill", "system call filter"}
