"""Run the conformance cases on a backend."""

from collections.abc import Callable, Mapping

from ...backends.registry import Backend
from ..harness import Case, CaseResult, SandboxFixture, run_case
from .commands import COMMANDS
from .files import FILES
from .limits import LIMITS
from .reset import RESETS

CASES: Mapping[str, Case] = {**COMMANDS, **LIMITS, **FILES, **RESETS}


async def run_conformance(backend: Backend, on_result: Callable[[CaseResult], None] | None = None) -> list[CaseResult]:
    """Run every case and return the results; ``on_result`` receives each at once. The backend stays open."""
    sandboxes, results = SandboxFixture(backend), list[CaseResult]()
    try:
        for name, case in CASES.items():
            results.append(await run_case(name, case, sandboxes))
            if on_result is not None:
                on_result(results[-1])
    finally:
        await sandboxes.close()
    return results
