"""A backend that passes everything to a real one, and fails where it is told to."""

import asyncio
import random

from turnwise.sandbox.backends.listing import SandboxInfo
from turnwise.sandbox.backends.registry import Backend
from turnwise.sandbox.errors import SandboxError, SandboxLost, StartFailed
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.spec import SandboxSpec


class Faulty:
    """``starts`` errors are raised by as many starts; then a start fails, and a reset, with these probabilities."""

    name = "local"

    def __init__(self, real: Backend, *, start: float = 0.0, reset: float = 0.0, seed: int = 0) -> None:
        self.real = real
        self.errors: list[Exception] = []
        self.start_fails = start
        self.reset_fails = reset
        self.slow = 0.0
        self.tried = 0
        self.open: set[str] = set()
        self.most = 0
        self._rng = random.Random(seed)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        self.tried += 1
        await asyncio.sleep(self.slow)
        if self.errors:
            raise self.errors.pop(0)
        if self._rng.random() < self.start_fails:
            raise StartFailed("the engine is down")
        box = await self.real.start(spec)
        self.open.add(box.id)
        self.most = max(self.most, len(self.open))
        closed, cleared = box.close, box.reset

        async def close() -> None:
            self.open.discard(box.id)
            await closed()

        async def reset(*, timeout_s: float) -> None:
            if self._rng.random() < self.reset_fails:
                raise SandboxLost("it could not be cleared")
            await cleared(timeout_s=timeout_s)

        box.close, box.reset = close, reset  # type: ignore[method-assign]
        return box

    async def reap(self) -> list[str]:
        raise SandboxError("the engine is down")

    async def list_sandboxes(self) -> list[SandboxInfo]:
        return await self.real.list_sandboxes()

    async def close(self) -> None:
        await self.real.close()
