"""Run one attack on a sandbox while a sibling sandbox is watched."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Any

from ..backends.protocol import Containment
from ..errors import FileError, SandboxError
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from .harness import SPEC, CheckFailed, SandboxFixture, expect, python

ATTACK_TIMEOUT_S = 60.0
PING_INTERVAL_S = 0.05
SIBLING_MAX_MS = 5000.0
"""Maximum duration of any command in the sibling."""


class Verdict(StrEnum):
    """Result of an attack."""

    HELD = "held"
    BROKE = "broke out"
    UNCLAIMED = "not contained"
    """The attack succeeded, and the backend does not claim to contain it."""


@dataclass(slots=True)
class AttackContext:
    """Sandboxes of one attack."""

    sandbox: Sandbox
    """The attacked one."""
    sibling: Sandbox

    @property
    def spec(self) -> SandboxSpec:
        """Return the spec of the attacked sandbox."""
        return self.sandbox.spec

    async def expect_usable(self) -> None:
        """Require that the attacked sandbox still runs a command. Raises CheckFailed, SandboxLost."""
        done = await self.sandbox.exec(["true"], timeout_s=5)
        expect(done.exit_code == 0, f"afterwards no command runs: exit {done.exit_code} {done.stderr[:80]!r}")


Work = Callable[[AttackContext], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack; ``work`` returns a short finding, or raises ``CheckFailed`` if the sandbox did not contain it."""

    name: str
    work: Work
    needs: Containment | None = None
    """The area whose backends must contain it; None: every backend must."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Changes to the spec of the attacked sandbox."""
    may_lose: bool = False
    """Whether the attack is contained, too, if the sandbox is lost."""


class Attacks(list[Attack]):
    """The attacks of one file, in their order."""

    def add(
        self, name: str, needs: Containment | None = None, *, may_lose: bool = False, **changes: Any
    ) -> Callable[[Work], Work]:
        """Add the attack that the decorated function makes; the arguments are the fields of ``Attack``."""

        def added(work: Work) -> Work:
            self.append(Attack(name, work, needs, changes, may_lose))
            return work

        return added


def silent(code: str, failure: str, finding: str) -> Work:
    """Return an attack by a Python program that prints what it reached: the sandbox contains it if nothing is printed.

    ``failure`` precedes what was printed, and ``finding`` is that of a contained attack.
    """

    async def work(context: AttackContext) -> str:
        found = await python(context.sandbox, code)
        expect(not found, f"{failure}: {', '.join(found.splitlines())}")
        return finding

    return work


@dataclass(frozen=True, slots=True)
class AttackResult:
    """Result of one attack."""

    name: str
    verdict: Verdict
    ms: float
    """Duration until the sandbox ran a command again or was lost."""
    sandbox: str
    """State of the attacked sandbox: ``answers``, ``after a reset`` (it answers only then) or ``lost``."""
    sibling_ms: float
    """Maximum duration of a command in the sibling during the attack."""
    detail: str

    @property
    def ok(self) -> bool:
        """Return whether the backend contained the attack, or does not claim to, and the sibling was not disturbed."""
        return self.verdict is not Verdict.BROKE and self.sibling_ms <= SIBLING_MAX_MS


async def run_attack(attack: Attack, sandboxes: SandboxFixture) -> AttackResult:
    """Run one attack and return its result. Raises SandboxError if its sandboxes cannot be started."""
    attacked, sibling = await sandboxes(**attack.changes), await sandboxes(pids=SPEC.pids - 1)
    context = AttackContext(attacked, sibling)
    began, verdict, lost = monotonic(), Verdict.HELD, False
    async with _watch(context.sibling) as durations_ms:
        try:
            async with asyncio.timeout(ATTACK_TIMEOUT_S):
                detail = await attack.work(context)
        except TimeoutError:
            verdict, detail = Verdict.BROKE, f"not finished after {ATTACK_TIMEOUT_S:g} s"
        except (CheckFailed, FileError) as failed:
            verdict, detail = Verdict.BROKE, str(failed)
        except SandboxError as error:
            verdict, detail, lost = Verdict.HELD if attack.may_lose else Verdict.BROKE, str(error), True
        state = "lost" if lost else await _state(context)
        ms = (monotonic() - began) * 1e3
    claimed = attack.needs is None or attack.needs in sandboxes.backend.capabilities.contains
    if verdict is Verdict.BROKE and not claimed:
        verdict = Verdict.UNCLAIMED
    await sandboxes.end_case(reuse=verdict is Verdict.HELD)
    return AttackResult(attack.name, verdict, ms, state, max(durations_ms), detail)


async def _state(context: AttackContext) -> str:
    try:
        if (await context.sandbox.exec(["true"], timeout_s=5)).exit_code == 0:
            return "answers"
        await context.sandbox.reset(timeout_s=10)
        await context.expect_usable()
    except (SandboxError, CheckFailed):
        return "lost"
    return "after a reset"


@contextlib.asynccontextmanager
async def _watch(sibling: Sandbox) -> AsyncIterator[list[float]]:
    """Run commands in the sibling until the block ends; yield their durations in ms, infinite for a failed one."""
    durations_ms, over = list[float](), asyncio.Event()

    async def ping() -> None:
        while not (over.is_set() and durations_ms):
            began = monotonic()
            try:
                done = await sibling.exec(["true"], timeout_s=10)
            except SandboxError:
                durations_ms.append(float("inf"))
                return
            durations_ms.append((monotonic() - began) * 1e3 if done.exit_code == 0 else float("inf"))
            await asyncio.sleep(PING_INTERVAL_S)

    pinging = asyncio.create_task(ping())
    try:
        yield durations_ms
    finally:
        over.set()
        await pinging
