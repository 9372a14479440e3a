"""One owner thread for an environment's whole life, and a deadline on every call.

Some worlds are bound to the thread that made them (Playwright), and no thread can be killed. So each environment is
made, reset, stepped and closed by one daemon thread, and:

* a call that overruns its deadline raises ``EnvTimeout``; the thread is given up, never joined, and counted by
  ``lost_threads()`` until it ends by itself; the owner is then ``lost`` and refuses further calls;
* whatever the environment raises, ``SystemExit`` included, arrives as ``EnvironmentFailed`` with the last lines of
  its traceback, and the thread lives on: a reset may follow;
* what it returns is checked in the thread (``envs.seen``), so that a large observation never holds the event loop
  up.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any, TypeVar

from ...records import Task
from ..base import TurnEnv
from ..errors import EnvError, EnvironmentFailed, EnvTimeout, told
from ..registry import make
from ..tasks import env_package
from .step_result import StepResult, seen_at_reset, seen_at_step

T = TypeVar("T")
_given_up: list[threading.Thread] = []


def lost_threads() -> int:
    """Threads of this process that were given up and still have not ended."""
    _given_up[:] = [thread for thread in _given_up if thread.is_alive()]
    return len(_given_up)


class _Thread(threading.Thread):
    """Runs jobs in order until told to stop or given up."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"env {name}", daemon=True)
        self.inbox: SimpleQueue[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]] | None] = (
            SimpleQueue()
        )
        self.given_up = False
        self.env: TurnEnv | None = None

    def run(self) -> None:
        while (job := self.inbox.get()) is not None and not self.given_up:
            work, deliver = job
            try:
                result, error = work(), None
            except BaseException as raised:
                result, error = None, raised
            deliver(result, error)
            del job, work, deliver, result, error
        if self.env is not None:
            # Given up, it came back after all; or it could not be made whole. What it holds is released all the same.
            with contextlib.suppress(BaseException):
                self.env.close()


class EnvThread:
    """An environment behind its owner thread. Of one event loop; calls are made one at a time.

    Every method takes ``deadline``, in seconds from now, and raises:
        EnvTimeout: the deadline passed (or had passed in an earlier call): the thread is given up.
        EnvironmentFailed: the environment raised.
        EnvironmentBroken: what it returned breaks the contract.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any] | None = None) -> None:
        self.env_id = env_id
        self.options = dict(options or {})
        self.lost = False
        self.deterministic = True
        """Known once made."""
        self.instructions = ""
        """The environment's system prompt; known once made."""
        self.holds_sandbox = False
        """Whether, until it is reset or closed, it may hold a sandbox that it does not keep anyway; known once made."""
        self.package = ""
        """The installed package that provides the environment, with its version (``envs.tasks.env_package``); known
        once made.
        """
        self._thread: _Thread | None = None

    @classmethod
    def of(cls, task: Task) -> "EnvThread":
        """The owner of a task's environment."""
        return cls(task.env_id, task.options)

    async def make(self, timeout_s: float) -> None:
        """Start the thread and construct the environment in it. Cancelled meanwhile, the thread is given up.

        Raises:
            UnknownEnvironment: no such id; and as said of the class.
        """
        self._thread = thread = _Thread(self.env_id)
        thread.start()

        def construct() -> bool:
            thread.env = make(self.env_id, **self.options)
            self.instructions = thread.env.instructions()
            self.package = env_package(self.env_id)
            self.holds_sandbox = bool(thread.env.sandboxed and not thread.env.keeps_sandbox)
            return bool(thread.env.deterministic)

        try:
            self.deterministic = await self._wait("make", construct, timeout_s)
        except EnvError:
            thread.inbox.put(None)
            self._thread = None
            raise
        except BaseException:
            self._give_up()
            raise

    async def reset(self, seed: int, split: str, timeout_s: float) -> StepResult:
        """Begin an episode."""

        def work(env: TurnEnv) -> StepResult:
            began = time.perf_counter()
            answer = env.reset(seed=seed, options={"split": split})
            return seen_at_reset(env, answer, (time.perf_counter() - began) * 1e3)

        return await self.run("reset", work, timeout_s)

    async def step(self, action: str, timeout_s: float) -> StepResult:
        """Take one turn."""

        def work(env: TurnEnv) -> StepResult:
            began = time.perf_counter()
            answer = env.step(action)
            return seen_at_step(env, answer, (time.perf_counter() - began) * 1e3)

        return await self.run("step", work, timeout_s)

    async def run(self, what: str, work: Callable[[TurnEnv], T], timeout_s: float) -> T:
        """Run any function of the environment in its thread; ``what`` names it in errors."""
        thread = self._thread
        env = thread.env if thread else None
        if env is None and not self.lost:
            raise EnvironmentFailed(f"{self.env_id} {what}: the environment is not made, or already closed")
        return await self._wait(what, lambda: work(env), timeout_s)  # type: ignore[arg-type]

    async def close(self, timeout_s: float) -> None:
        """Close the environment and end its thread. Raises nothing: an overrun is one more lost thread."""
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
            raise EnvTimeout(f"{name}: its thread was given up when an earlier call overran its deadline")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(told(name, error))

        def deliver(result: T, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        def overrun() -> None:
            if not future.done():
                self._give_up()
                future.set_exception(
                    EnvTimeout(f"{name} had not returned after {timeout_s:g} s; its thread is given up")
                )

        timer = loop.call_later(timeout_s, overrun)
        thread.inbox.put((work, deliver))
        try:
            return await future
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        thread, self._thread = self._thread, None
        self.lost = True
        if thread is not None:
            thread.given_up = True
            thread.inbox.put(None)
            _given_up.append(thread)
