"""An attack that ends its sandbox broke out, unless it says that this is contained."""

import asyncio

import pytest
from turnwise.sandbox import SandboxLost
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.selfcheck.attack import Attack, AttackContext, AttackResult, Verdict, run_attack
from turnwise.sandbox.selfcheck.harness import SandboxFixture

pytestmark = pytest.mark.slow


async def lose(context: AttackContext) -> str:
    await context.sandbox.close()
    raise SandboxLost("the sandbox ended")


def result_of(attack: Attack) -> AttackResult:
    async def work() -> AttackResult:
        backend = make_backend("local", "tests", allow_untrusted=True)
        sandboxes = SandboxFixture(backend)
        try:
            return await run_attack(attack, sandboxes)
        finally:
            await sandboxes.close()
            await backend.close()

    return asyncio.run(work())


def test_a_lost_sandbox_is_not_contained() -> None:
    result = result_of(Attack("losing", lose))
    assert (result.verdict, result.sandbox, result.ok) == (Verdict.BROKE, "lost", False)


def test_an_attack_may_declare_that_it_loses_its_sandbox() -> None:
    result = result_of(Attack("losing", lose, may_lose=True))
    assert (result.verdict, result.sandbox, result.ok) == (Verdict.HELD, "lost", True)
