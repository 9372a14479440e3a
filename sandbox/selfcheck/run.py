"""Run the conformance cases and the attacks on a backend (`turnwise sandbox check`).

A backend must pass every case, and contain every attack of the areas that its ``capabilities`` contain, and those
without an area. Other successful attacks are reported as ``not contained``. The cases of leaks through a reset run as
attacks too.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..backends.protocol import Backend
from ..sandbox import Sandbox
from .attack import Attack, AttackContext, AttackResult, run_attack
from .attacks import kernel, network, privileges, resources
from .conformance import commands, files, limits, reset
from .harness import Case, CaseResult, SandboxFixture, run_case

CASES: Mapping[str, Case] = {**commands.CASES, **limits.CASES, **files.CASES, **reset.CASES}


def _as_attack(name: str, case: Case) -> Attack:
    """Return a conformance case as an attack on one sandbox."""

    async def work(context: AttackContext) -> str:
        async def make(**changes: Any) -> Sandbox:
            return context.sandbox

        return await case(make)

    return Attack(name, work)


ATTACKS = (
    *(*resources.ATTACKS, *kernel.ATTACKS, *network.ATTACKS, *privileges.ATTACKS),
    *(_as_attack(name, case) for name, case in reset.CASES.items()),
)


async def run_conformance(
    backend: Backend, on_result: Callable[[CaseResult], None] | None = None, *, lanes: int = 1
) -> list[CaseResult]:
    """Run every case and return the results; ``on_result`` receives each at once. The backend stays open.

    ``lanes`` cases run at the same time, each in its own sandboxes; most of their time is waiting.
    """
    left, results = iter(CASES.items()), list[CaseResult]()

    async def lane() -> None:
        sandboxes = SandboxFixture(backend)
        try:
            for name, case in left:
                result = await run_case(name, case, sandboxes)
                results.append(result)
                if on_result is not None:
                    on_result(result)
        finally:
            await sandboxes.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())
    return results


async def run_attacks(
    backend: Backend, on_result: Callable[[AttackResult], None] | None = None, *, only: Collection[str] | None = None
) -> list[AttackResult]:
    """Run every attack, or ``only`` those of these names, and return the results; ``on_result`` receives each at once.

    The backend stays open.

    Raises:
        SandboxError: sandboxes could not be started.
    """
    chosen = [attack for attack in ATTACKS if only is None or attack.name in only]
    sandboxes, results = SandboxFixture(backend), list[AttackResult]()
    try:
        for attack in chosen:
            results.append(await run_attack(attack, sandboxes))
            if on_result is not None:
                on_result(results[-1])
    finally:
        await sandboxes.close()
    return results
