"""Run the attacks on a backend (`turnwise sandbox check --attacks`).

A backend must contain every attack of the areas that its ``capabilities`` contain, and those without an area. Other
successful attacks are reported as ``not contained``. The leak cases of the conformance suite run as attacks too.
"""

from collections.abc import Callable, Collection
from typing import Any

from ...backends.protocol import Backend
from ...sandbox import Sandbox
from ..attack import Attack, AttackContext, AttackResult, run_attack
from ..conformance.reset import RESETS
from ..harness import Case, SandboxFixture
from .kernel import KERNEL
from .kernel_tables import KERNEL_TABLES
from .network import NETWORK
from .privileges import PRIVILEGES
from .resources import RESOURCES


def _as_attack(name: str, case: Case) -> Attack:
    """Return a conformance case as an attack on one sandbox."""

    async def work(context: AttackContext) -> str:
        async def make(**changes: Any) -> Sandbox:
            return context.sandbox

        return await case(make)

    return Attack(name, work)


ATTACKS = (
    *RESOURCES,
    *KERNEL,
    *KERNEL_TABLES,
    *NETWORK,
    *PRIVILEGES,
    *(_as_attack(name, case) for name, case in RESETS.items()),
)


async def run_attacks(
    backend: Backend,
    on_result: Callable[[AttackResult], None] | None = None,
    *,
    only: Collection[str] | None = None,
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
