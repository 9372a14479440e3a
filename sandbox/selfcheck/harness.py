"""What the cases of ``conformance`` and ``attacks`` share: boxes to try things in, and how a case's end is told.

A case is a coroutine that takes a maker of boxes and says in a few words what it found, or raises ``Failed``. It knows
nothing of the backend. Boxes are small, so that a limit is soon met, and serve one case after another with a reset in
between; those of a case that failed are ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from ..backends.registry import Backend
from ..errors import SandboxError
from ..sandbox import Box
from ..spec import SandboxSpec

SPEC = SandboxSpec(
    memory_mib=192, disk_mib=16, inodes=2048, pids=64, output_kib=64, read_mib=4, ttl=600.0, trusted=True
)
CASE_SECONDS = 90.0
RESET_SECONDS = 10.0
WALK_SECONDS = 60.0
"""For what walks a whole file system, on a disk that nobody read lately."""


class Failed(Exception):
    """A case does not hold; the text says how."""


class Make(Protocol):
    """Makes a clean box with these changes to ``SPEC``; it is the case's alone."""

    async def __call__(self, **changes: Any) -> Box:
        """Raises SandboxError."""
        ...


Case = Callable[[Make], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended; ``ms`` is how long it took, starting boxes included."""

    name: str
    ok: bool
    ms: float
    detail: str


class Boxes:
    """A maker of boxes that lends the same ones again. Of one event loop."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._idle: list[Box] = []
        self._lent: list[Box] = []

    async def __call__(self, **changes: Any) -> Box:
        """See ``Make``."""
        spec = SandboxSpec.model_validate({**SPEC.model_dump(), **changes})
        box = next((one for one in self._idle if one.spec == spec and one.alive), None)
        if box is None:
            box = await self.backend.start(spec)
        else:
            self._idle.remove(box)
        self._lent.append(box)
        return box

    async def back(self, *, again: bool) -> None:
        """The case is over; its boxes are cleared for the next where they may serve ``again``, else ended."""
        lent, self._lent = self._lent, []
        for box in lent:
            try:
                if again and box.alive:
                    await box.reset(timeout_s=RESET_SECONDS)
                    self._idle.append(box)
                    continue
            except SandboxError:
                pass
            await box.close()

    async def close(self) -> None:
        """End every box."""
        await self.back(again=False)
        for box in self._idle:
            await box.close()


async def run_case(name: str, case: Case, boxes: Boxes) -> Result:
    """Try one case, for ``CASE_SECONDS`` at most."""
    began, ok = monotonic(), False
    try:
        async with asyncio.timeout(CASE_SECONDS):
            detail = await case(boxes)
        ok = True
    except TimeoutError:
        detail = f"not finished after {CASE_SECONDS:g} s"
    except (Failed, SandboxError) as error:
        detail = str(error)
    ms = (monotonic() - began) * 1e3
    await boxes.back(again=ok)
    return Result(name, ok, ms, detail)


def expect(held: bool, otherwise: str) -> None:
    """Raise ``Failed`` unless it held."""
    if not held:
        raise Failed(otherwise)


async def raises(kind: type[SandboxError], work: Awaitable[object], what: str) -> str:
    """The text of the error of this kind that ``work`` must raise."""
    try:
        await work
    except kind as error:
        return str(error)
    raise Failed(f"{what} raised no {kind.__name__}")


async def sh(
    box: Box, script: str, *, timeout_s: float = 10.0, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> str:
    """What a shell script prints, stripped; it must exit with 0. Raises Failed, SandboxLost."""
    return await _printed(box, ["sh", "-c", script], timeout_s, stdin, env)


async def python(box: Box, code: str, *arguments: object, timeout_s: float = 20.0) -> str:
    """What a Python program prints, stripped; it must exit with 0. Raises Failed, SandboxLost."""
    return await _printed(box, ["python3", "-c", code, *map(str, arguments)], timeout_s, b"", None)


async def _printed(box: Box, argv: list[str], timeout_s: float, stdin: bytes, env: Mapping[str, str] | None) -> str:
    done = await box.exec(argv, timeout_s=timeout_s, stdin=stdin, env=env)
    if done.exit_code:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        why = "deadline" if done.timed_out else "flood" if done.output_limit_exceeded else f"exit {done.exit_code}"
        raise Failed(f"{argv[0]}: {why}: {said[-1] if said else 'no word'}")
    return done.stdout.decode(errors="replace").strip()
