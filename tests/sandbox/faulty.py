"""A backend that forwards to a real one and injects faults."""

import asyncio
import random

from turnwise.sandbox.backends.ownership import SandboxInfo
from turnwise.sandbox.backends.protocol import Backend
from turnwise.sandbox.errors import SandboxError, SandboxLost, StartFailed
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.spec import SandboxSpec


class Faulty:
    """Each start first raises the next of ``errors``; then starts and resets fail with the given probabilities."""

    name = "local"

    def __init__(self, real: Backend, *, start: float = 0.0, reset: float = 0.0, seed: int = 0) -> None:
        self.real = real
        self.capabilities = real.capabilities
        self.errors: list[Exception] = []
        self.start_failure_rate = start
        self.reset_failure_rate = reset
        self.start_delay_s = 0.0
        self.starts = 0
        self.open: set[str] = set()
        self.max_open = 0
        self._rng = random.Random(seed)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        self.starts += 1
        await asyncio.sleep(self.start_delay_s)
        if self.errors:
            raise self.errors.pop(0)
        if self._rng.random() < self.start_failure_rate:
            raise StartFailed("the engine is down")
        sandbox = await self.real.start(spec)
        self.open.add(sandbox.id)
        self.max_open = max(self.max_open, len(self.open))
        real_close, real_reset = sandbox.close, sandbox.reset

        async def close() -> None:
            self.open.discard(sandbox.id)
            await real_close()

        async def reset(*, timeout_s: float) -> None:
            if self._rng.random() < self.reset_failure_rate:
                raise SandboxLost("the reset failed")
            await real_reset(timeout_s=timeout_s)

        sandbox.close, sandbox.reset = close, reset  # type: ignore[method-assign]
        return sandbox

    async def reap(self) -> list[str]:
        raise SandboxError("the engine is down")

    async def list_sandboxes(self) -> list[SandboxInfo]:
        return await self.real.list_sandboxes()

    async def close(self) -> None:
        await self.real.close()
