"""The table of isolation attacks (``turnwise sandbox check --attacks``): each is tried, and either held or not.

A backend's claims are held against it: what it says that it contains, it must; what it says it does not is told as
``not contained``. Nothing is sent outside this machine.
"""

from collections.abc import Callable, Collection
from typing import Any

from ...backends.registry import Backend
from ...sandbox import Box
from ..attack import Attack, Outcome, Ring, attacked
from ..conformance.reset import LEFTOVERS
from ..harness import Boxes, Case
from .network import NETWORK
from .privileges import RIGHTS
from .resources import RESOURCES


def _leftover(name: str, case: Case) -> Attack:
    """What is left after a reset, as an attack."""

    async def work(ring: Ring) -> str:
        async def make(**changes: Any) -> Box:
            return ring.box

        return await case(make)

    return Attack(name, work)


ATTACKS = (*RESOURCES, *NETWORK, *RIGHTS, *(_leftover(name, case) for name, case in LEFTOVERS.items()))


async def attack(
    backend: Backend, told: Callable[[Outcome], None] | None = None, *, only: Collection[str] | None = None
) -> list[Outcome]:
    """Make every attack, or ``only`` those of these names; ``told`` hears of each as it ends. The backend stays open.

    Raises:
        SandboxError: boxes could not be started.
    """
    chosen = [each for each in ATTACKS if only is None or each.name in only]
    boxes, outcomes = Boxes(backend), list[Outcome]()
    try:
        for each in chosen:
            outcomes.append(await attacked(each, boxes))
            if told is not None:
                told(outcomes[-1])
    finally:
        await boxes.close()
    return outcomes
