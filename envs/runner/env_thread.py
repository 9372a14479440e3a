"""One thread per environment, with a timeout on every call.

Some environments are bound to the thread that made them (Playwright), and a thread cannot be killed. So one daemon
thread makes, resets, steps and closes an environment:

* A call that exceeds its timeout raises ``EnvTimeout``. Its thread is abandoned, never joined, and counted by
  ``abandoned_threads()`` until it ends by itself. The ``EnvThread`` is then ``lost`` and refuses further calls.
* Any exception of the environment, ``SystemExit`` included, arrives as ``EnvironmentFailed`` with the last lines of its
  traceback. The thread continues, so a reset may follow.
* Return values are checked in the thread (``runner.step_result``), so large observations do not block the event loop.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any, TypeVar

from ...records import Task
from ..base import TurnEnv
from ..errors import EnvError, EnvironmentFailed, EnvTimeout, wrap_error
from ..registry import make
from ..tasks import env_package
from .observations import instructions
from .step_result import StepResult, from_reset, from_step

LOG = logging.getLogger(__name__)

T = TypeVar("T")
_abandoned: list[threading.Thread] = []


def abandoned_threads() -> int:
    """Return how many abandoned threads of this process are still alive."""
    _abandoned[:] = [thread for thread in _abandoned if thread.is_alive()]
    return len(_abandoned)


class _Thread(threading.Thread):
    """Runs jobs in order until it gets None or is abandoned."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"env {name}", daemon=True)
        self.inbox: SimpleQueue[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]] | None] = (
            SimpleQueue()
        )
        self.abandoned = False
        self.env: TurnEnv | None = None

    def run(self) -> None:
        while (job := self.inbox.get()) is not None and not self.abandoned:
            work, deliver = job
            try:
                result, error = work(), None
            except BaseException as raised:  # noqa: BLE001 - delivered to the caller
                result, error = None, raised
            deliver(result, error)
            del job, work, deliver, result, error
        if self.env is not None:
            # Reached when an abandoned call returns after all, or when making the environment failed half-way.
            try:
                self.env.close()
            except BaseException:
                LOG.warning("an environment did not close", exc_info=True, extra={"thread": self.name})


class EnvThread:
    """An environment in a dedicated thread. It belongs to one event loop, which makes one call at a time.

    Every method takes ``timeout_s`` and raises:
        EnvTimeout: this call, or an earlier one, exceeded its timeout; the thread is abandoned.
        EnvironmentFailed: the environment raised.
        EnvironmentBroken: a return value breaks the contract.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any] | None = None) -> None:
        self.env_id = env_id
        self.options = dict(options or {})
        self.lost = False
        self.deterministic = True
        """Set by ``make``."""
        self.restorable = False
        """Whether ``snapshot`` and ``restore`` work; set by ``make``."""
        self.instructions = ""
        """The environment's system prompt, set by ``make``."""
        self.holds_sandbox = False
        """Whether an idle environment may still hold a lease: it must be closed, not reused. Set by ``make``."""
        self.package = ""
        """The installed package that provides the environment, with its version (``envs.tasks.env_package``); set by
        ``make``.
        """
        self._thread: _Thread | None = None

    @classmethod
    def of(cls, task: Task) -> "EnvThread":
        """Return the thread of a task's environment, not yet made."""
        return cls(task.env_id, task.options)

    async def make(self, timeout_s: float) -> None:
        """Start the thread and construct the environment in it. A cancellation abandons the thread.

        Raises:
            UnknownEnvironment: the id is not registered; and the errors of the class.
        """
        self._thread = thread = _Thread(self.env_id)
        thread.start()

        def construct() -> bool:
            thread.env = make(self.env_id, **self.options)
            self.instructions = instructions(thread.env)
            self.package = env_package(self.env_id)
            self.restorable = bool(thread.env.restorable)
            self.holds_sandbox = bool(thread.env.sandboxed and not thread.env.keeps_sandbox)
            return bool(thread.env.deterministic)

        try:
            self.deterministic = await self._wait("make", construct, timeout_s)
        except EnvError:
            thread.inbox.put(None)
            self._thread = None
            raise
        except BaseException:
            self._abandon()
            raise

    async def reset(self, seed: int, split: str, timeout_s: float) -> StepResult:
        """Start an episode."""

        def work(env: TurnEnv) -> StepResult:
            began, env.deadline = time.perf_counter(), time.monotonic() + timeout_s
            answer = env.reset(seed=seed, options={"split": split})
            return from_reset(env, answer, (time.perf_counter() - began) * 1e3)

        return await self.run("reset", work, timeout_s)

    async def step(self, action: str, timeout_s: float) -> StepResult:
        """Take one turn."""

        def work(env: TurnEnv) -> StepResult:
            began, env.deadline = time.perf_counter(), time.monotonic() + timeout_s
            answer = env.step(action)
            return from_step(env, answer, (time.perf_counter() - began) * 1e3)

        return await self.run("step", work, timeout_s)

    async def snapshot(self, timeout_s: float) -> Any:
        """Return the state of the running episode, for ``restore``; None if it has none now."""
        return await self.run("snapshot", lambda env: env.snapshot(), timeout_s)

    async def restore(self, snapshot: Any, timeout_s: float) -> None:
        """Continue the episode of a snapshot, which an environment with the same options took."""
        await self.run("restore", lambda env: env.restore(snapshot), timeout_s)

    async def run(self, what: str, work: Callable[[TurnEnv], T], timeout_s: float) -> T:
        """Run a function of the environment in its thread; ``what`` names it in errors."""
        thread = self._thread
        env = thread.env if thread else None
        if env is None and not self.lost:
            raise EnvironmentFailed(f"{self.env_id} {what}: the environment is not made, or already closed")
        return await self._wait(what, lambda: work(env), timeout_s)  # type: ignore[arg-type]

    async def close(self, timeout_s: float) -> None:
        """Close the environment and end its thread. Raises nothing: a timeout leaves one more abandoned thread."""
        thread = self._thread
        if thread is None or self.lost:
            return
        env, thread.env = thread.env, None
        try:
            if env is not None:
                await self._wait("close", env.close, timeout_s)
        except EnvError:
            pass
        finally:
            thread.inbox.put(None)
            self._thread = None

    async def _wait(self, what: str, work: Callable[[], T], timeout_s: float) -> T:
        name = f"{self.env_id} {what}"
        thread = self._thread
        if self.lost or thread is None:
            raise EnvTimeout(f"{name}: its thread was abandoned after an earlier call timed out")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(wrap_error(name, error))

        def deliver(result: T, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:  # the loop is closed
                return

        def overrun() -> None:
            if not future.done():
                self._abandon()
                future.set_exception(
                    EnvTimeout(f"{name} did not return within {timeout_s:g} s; its thread is abandoned")
                )

        timer = loop.call_later(timeout_s, overrun)
        thread.inbox.put((work, deliver))
        try:
            return await future
        finally:
            timer.cancel()

    def _abandon(self) -> None:
        thread, self._thread = self._thread, None
        self.lost = True
        if thread is not None:
            thread.abandoned = True
            thread.inbox.put(None)
            _abandoned.append(thread)
