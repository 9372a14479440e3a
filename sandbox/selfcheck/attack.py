"""One attack on a sandbox, and what is watched meanwhile: the box it is made in, and its sibling."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Any

from ..errors import FileError, SandboxError
from ..sandbox import Box
from ..spec import SandboxSpec
from .harness import SPEC, Boxes, Failed, expect

ATTACK_SECONDS = 60.0
PING_SECONDS = 0.05
SIBLING_MS = 5000.0
"""A sibling must answer within this many milliseconds throughout."""


class Verdict(StrEnum):
    """How an attack ended."""

    HELD = "held"
    BROKE = "broke out"
    UNCLAIMED = "not contained"
    """It is not held, and the backend does not say that it is."""


@dataclass(slots=True)
class Ring:
    """Where an attack takes place."""

    box: Box
    sibling: Box
    backend: str

    @property
    def spec(self) -> SandboxSpec:
        """The attacked box's."""
        return self.box.spec

    async def answers(self) -> None:
        """The attacked box must still run a command. Raises Failed, SandboxLost."""
        done = await self.box.exec(["true"], timeout_s=5)
        expect(done.exit_code == 0, f"afterwards nothing can be run: exit {done.exit_code} {done.stderr[:80]!r}")


@dataclass(frozen=True, slots=True)
class Attack:
    """``work`` says what came of it, or raises ``Failed`` where it was not held."""

    name: str
    work: Callable[[Ring], Awaitable[str]]
    unclaimed: frozenset[str] = frozenset()
    """Backends that do not say that they hold it."""
    changes: dict[str, Any] = field(default_factory=dict)
    """To the attacked box's spec."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attack."""

    name: str
    verdict: Verdict
    ms: float
    """Until it was over and the box ran a command again, or was known to be lost."""
    box: str
    """``answers``, ``after a reset``, ``lost``."""
    sibling_ms: float
    """The longest that the sibling took over a command meanwhile."""
    detail: str

    @property
    def ok(self) -> bool:
        """What is claimed is held, and the sibling did not notice."""
        return self.verdict is not Verdict.BROKE and self.sibling_ms <= SIBLING_MS


async def attacked(attack: Attack, boxes: Boxes) -> Outcome:
    """Make one attack. Raises SandboxError where the boxes for it cannot be had."""
    ring = Ring(await boxes(**attack.changes), await boxes(pids=SPEC.pids - 1), boxes.backend.name)
    began, verdict, lost = monotonic(), Verdict.HELD, False
    async with _watched(ring.sibling) as slowest:
        try:
            async with asyncio.timeout(ATTACK_SECONDS):
                detail = await attack.work(ring)
        except TimeoutError:
            verdict, detail = Verdict.BROKE, f"not over after {ATTACK_SECONDS:g} s"
        except (Failed, FileError) as failed:
            verdict, detail = Verdict.BROKE, str(failed)
        except SandboxError as error:
            detail, lost = str(error), True
        after = "lost" if lost else await _state(ring)
        ms = (monotonic() - began) * 1e3
    if verdict is Verdict.BROKE and ring.backend in attack.unclaimed:
        verdict = Verdict.UNCLAIMED
    await boxes.back(again=verdict is Verdict.HELD)
    return Outcome(attack.name, verdict, ms, after, max(slowest), detail)


async def _state(ring: Ring) -> str:
    try:
        if (await ring.box.exec(["true"], timeout_s=5)).exit_code == 0:
            return "answers"
        await ring.box.reset(timeout_s=10)
        await ring.answers()
    except (SandboxError, Failed):
        return "lost"
    return "after a reset"


@contextlib.asynccontextmanager
async def _watched(sibling: Box) -> AsyncIterator[list[float]]:
    """How long a box takes over a command, again and again, in milliseconds; infinite where it does not do it."""
    taken, over = list[float](), asyncio.Event()

    async def request() -> None:
        while not (over.is_set() and taken):
            began = monotonic()
            try:
                done = await sibling.exec(["true"], timeout_s=10)
            except SandboxError:
                taken.append(float("inf"))
                return
            taken.append((monotonic() - began) * 1e3 if done.exit_code == 0 else float("inf"))
            await asyncio.sleep(PING_SECONDS)

    asking = asyncio.create_task(request())
    try:
        yield taken
    finally:
        over.set()
        await asking
