"""Run the conformance cases on a backend."""

import asyncio
from collections.abc import Callable, Mapping

from ...backends.protocol import Backend
from ..harness import Case, CaseResult, SandboxFixture, run_case
from .commands import COMMANDS
from .files import FILES
from .limits import LIMITS
from .reset import RESETS

CASES: Mapping[str, Case] = {**COMMANDS, **LIMITS, **FILES, **RESETS}


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
