"""What any backend's boxes must do: named cases that know nothing of the backend (``turnwise sandbox check``).

Whoever writes another backend runs ``conform`` over it; what passes here is what the rest of turnwise relies on.
"""

from collections.abc import Callable, Mapping

from ...backends.registry import Backend
from ..harness import Boxes, Case, Result, run_case
from .commands import COMMANDS
from .files import FILES
from .limits import LIMITS
from .reset import LEFTOVERS

CASES: Mapping[str, Case] = {**COMMANDS, **LIMITS, **FILES, **LEFTOVERS}


async def conform(backend: Backend, told: Callable[[Result], None] | None = None) -> list[Result]:
    """Try every case; ``told`` hears of each as it ends. The backend stays open."""
    boxes, results = Boxes(backend), list[Result]()
    try:
        for name, case in CASES.items():
            results.append(await run_case(name, case, boxes))
            if told is not None:
                told(results[-1])
    finally:
        await boxes.close()
    return results
