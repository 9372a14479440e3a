"""An environment in a thread, with a timeout on every call.

Some environments are bound to the thread that made them (Playwright), and a thread cannot be killed. So one daemon
thread makes, resets, steps and closes an environment. Environments that are not ``thread_bound`` and take microseconds
share one (``shared_thread``).

* A call that exceeds its timeout raises ``EnvTimeout``. Its thread is abandoned, never joined, and counted by
  ``call_thread.abandoned_threads()`` until it ends by itself. The ``EnvThread`` is then ``lost`` and refuses further
  calls.
* Any exception of the environment, ``SystemExit`` included, arrives as ``EnvironmentFailed`` with the last lines of its
  traceback. The thread continues, so a reset may follow.
* ``SandboxBroken`` of a step is not an exception but the end of the episode without a reward: the agent broke its
  sandbox. Every other ``SandboxError`` is a failure.
* Return values are checked in the thread (``runner.step_result``), so large observations do not block the event loop.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...records import Task
from ...sandbox.errors import SandboxBroken
from ..base import TurnEnv
from ..errors import EnvError, EnvironmentFailed, EnvTimeout, wrap_error
from ..registry import make
from ..tasks import env_package
from .call_thread import CallThread
from .observations import instructions
from .shared_thread import Overrun, SharedThread, is_slow
from .step_result import StepResult, broken_sandbox, from_reset, from_step

T = TypeVar("T")


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
        self.runner = "gym"
        """``TurnEnv.runner``; set by ``make``."""
        self.instructions = ""
        """The environment's system prompt, set by ``make``."""
        self.holds_sandbox = False
        """Whether an idle environment may still hold a lease: it must be closed, not reused. Set by ``make``."""
        self.package = ""
        """The installed package that provides the environment, with its version (``envs.tasks.env_package``); set by
        ``make``.
        """
        self._thread: CallThread | None = None
        """The environment's own thread; None while it shares one."""
        self._shared: SharedThread | None = None
        self._env: TurnEnv | None = None
        """The environment while it shares a thread."""
        self._key = f"{env_id} {json.dumps(self.options, sort_keys=True, default=str)}"

    @classmethod
    def of(cls, task: Task) -> "EnvThread":
        """Return the thread of a task's environment, not yet made."""
        return cls(task.env_id, task.options)

    async def make(self, timeout_s: float) -> None:
        """Start the thread and construct the environment in it. A cancellation abandons the thread.

        Raises:
            UnknownEnvironment: the id is not registered; and the errors of the class.
        """
        self._thread = thread = CallThread(self.env_id)
        thread.start()

        def construct() -> bool:
            thread.env = make(self.env_id, **self.options)
            self.instructions = instructions(thread.env)
            self.package = env_package(self.env_id)
            self.restorable = bool(thread.env.restorable)
            self.runner = str(thread.env.runner)
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
        if thread.env is not None and not thread.env.thread_bound:
            self._share(thread)

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
            try:
                answer = env.step(action)
            except SandboxBroken as error:
                answer = broken_sandbox(error)
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
        if self._shared is not None:
            if not is_slow(self._key):
                return await self._call_shared(self._shared, what, work, timeout_s)
            self._unshare()
        thread = self._thread
        env = thread.env if thread else None
        if env is None and not self.lost:
            raise EnvironmentFailed(f"{self.env_id} {what}: the environment is not made, or already closed")
        return await self._wait(what, lambda: work(env), timeout_s)  # type: ignore[arg-type]

    async def close(self, timeout_s: float) -> None:
        """Close the environment and end its thread. Raises nothing: a timeout leaves one more abandoned thread."""
        if self._shared is not None:
            assert self._env is not None  # noqa: S101
            self._shared.bound(self._env, timeout_s)
            try:
                await self._call_shared(self._shared, "close", lambda env: env.close(), timeout_s)
            except EnvError:
                pass
            finally:
                self._stop_sharing()
            return
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

    def _share(self, thread: CallThread) -> None:
        """Move the environment from its own thread into the shared one, unless its calls take too long."""
        self._shared = SharedThread.enter(self._key)
        if self._shared is not None:
            self._env, thread.env, self._thread = thread.env, None, None
            thread.inbox.put(None)

    def _unshare(self) -> None:
        """Move the environment from the shared thread into its own."""
        thread = self._thread = CallThread(self.env_id)
        thread.env = self._env
        thread.start()
        self._stop_sharing()

    def _stop_sharing(self) -> None:
        shared, self._shared, self._env = self._shared, None, None
        if shared is not None:
            shared.leave()

    async def _call_shared(self, shared: SharedThread, what: str, work: Callable[[TurnEnv], T], timeout_s: float) -> T:
        env, name = self._env, f"{self.env_id} {what}"
        assert env is not None  # noqa: S101
        try:
            return await shared.call(env, self._key, name, lambda: work(env), timeout_s)
        except Overrun:
            self.lost = True
            self._stop_sharing()
            raise EnvTimeout(f"{name} did not return within {timeout_s:g} s; its thread is abandoned") from None

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
            thread.abandon()
