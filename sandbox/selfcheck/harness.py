"""Common parts of conformance cases and attacks: sandboxes to try them in, results, and assertions.

A case is a coroutine that receives a ``MakeSandbox`` and returns a short finding or raises ``CheckFailed``. Sandboxes
are small, so that limits are reached quickly. They serve several cases in turn, with a reset between cases; those of a
failed case are closed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from ..backends.protocol import Backend
from ..errors import SandboxError
from ..sandbox import Sandbox
from ..spec import SandboxSpec

SPEC = SandboxSpec(
    memory_mib=192, disk_mib=16, inodes=2048, pids=64, output_kib=64, read_mib=4, ttl_s=600.0, trusted=True
)
CASE_TIMEOUT_S = 90.0
RESET_TIMEOUT_S = 10.0
WALK_TIMEOUT_S = 60.0
"""Long enough for a walk over a whole file system that is not in the page cache."""


class CheckFailed(Exception):
    """A case or an attack failed; the text describes the failure."""


class MakeSandbox(Protocol):
    """Provides sandboxes to one case."""

    async def __call__(self, **changes: Any) -> Sandbox:
        """Return a clean sandbox of ``SPEC`` with these changes, for this case alone. Raises SandboxError."""


Case = Callable[[MakeSandbox], Awaitable[str]]
Work = Callable[[Sandbox], Awaitable[str]]


class Cases(dict[str, Case]):
    """The cases of one file by name, in their order."""

    def add(self, name: str, **changes: Any) -> Callable[[Work], Work]:
        """Add the decorated function as a case on one sandbox of ``SPEC`` with these changes."""

        def added(work: Work) -> Work:
            async def case(make: MakeSandbox) -> str:
                return await work(await make(**changes))

            self[name] = case
            return work

        return added


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Result of one case."""

    name: str
    ok: bool
    ms: float
    """Duration, including the start of sandboxes."""
    detail: str


class SandboxFixture:
    """A ``MakeSandbox`` that reuses sandboxes, in one event loop."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._idle: list[Sandbox] = []
        self._used: list[Sandbox] = []

    async def __call__(self, **changes: Any) -> Sandbox:
        """Return a clean sandbox of ``SPEC`` with these changes. Raises SandboxError."""
        spec = SandboxSpec.model_validate({**SPEC.model_dump(), **changes})
        sandbox = next((one for one in self._idle if one.spec == spec and one.alive), None)
        if sandbox is None:
            sandbox = await self.backend.start(spec)
        else:
            self._idle.remove(sandbox)
        self._used.append(sandbox)
        return sandbox

    async def end_case(self, *, reuse: bool) -> None:
        """Take back the sandboxes of the case; reset them for the next case if ``reuse``, else close them."""
        used, self._used = self._used, []
        for sandbox in used:
            try:
                if reuse and sandbox.alive:
                    await sandbox.reset(timeout_s=RESET_TIMEOUT_S)
                    self._idle.append(sandbox)
                    continue
            except SandboxError:
                pass
            await sandbox.close()

    async def close(self) -> None:
        """Close every sandbox."""
        await self.end_case(reuse=False)
        for sandbox in self._idle:
            await sandbox.close()


async def run_case(name: str, case: Case, sandboxes: SandboxFixture) -> CaseResult:
    """Run one case for at most ``CASE_TIMEOUT_S`` and return its result."""
    began, ok = monotonic(), False
    try:
        async with asyncio.timeout(CASE_TIMEOUT_S):
            detail = await case(sandboxes)
        ok = True
    except TimeoutError:
        detail = f"not finished after {CASE_TIMEOUT_S:g} s"
    except (CheckFailed, SandboxError) as error:
        detail = str(error)
    ms = (monotonic() - began) * 1e3
    await sandboxes.end_case(reuse=ok)
    return CaseResult(name, ok, ms, detail)


def expect(held: bool, failure: str) -> None:
    """Raise ``CheckFailed`` with this text unless the condition held."""
    if not held:
        raise CheckFailed(failure)


async def raises(kind: type[SandboxError], work: Awaitable[object], operation: str) -> str:
    """Return the text of the error of this kind that ``work`` must raise. Raises CheckFailed."""
    try:
        await work
    except kind as error:
        return str(error)
    raise CheckFailed(f"{operation} did not raise {kind.__name__}")


async def sh(
    sandbox: Sandbox, script: str, *, timeout_s: float = 10.0, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> str:
    """Return the stripped output of a shell script, which must exit with 0. Raises CheckFailed, SandboxLost."""
    return await _output(sandbox, ["sh", "-c", script], timeout_s, stdin, env)


async def python(sandbox: Sandbox, code: str, *arguments: object) -> str:
    """Return the stripped output of a Python program, which must exit with 0. Raises CheckFailed, SandboxLost."""
    return await _output(sandbox, ["python3", "-c", code, *map(str, arguments)], 20.0, b"", None)


async def _output(
    sandbox: Sandbox, argv: list[str], timeout_s: float, stdin: bytes, env: Mapping[str, str] | None
) -> str:
    done = await sandbox.exec(argv, timeout_s=timeout_s, stdin=stdin, env=env)
    if done.exit_code:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        limit = "timeout" if done.timed_out else "output limit" if done.output_limit_exceeded else ""
        raise CheckFailed(f"{argv[0]}: {limit or f'exit {done.exit_code}'}: {lines[-1] if lines else 'without output'}")
    return done.stdout.decode(errors="replace").strip()
