"""An environment in a thread, with a timeout on every call.

Some environments are bound to the thread that made them (Playwright), and a thread cannot be killed. So one daemon
thread makes, resets, steps and closes an environment. Environments that are not ``thread_bound`` and take microseconds
share one (``calls``).

* A call that exceeds its timeout raises ``EnvTimeout``. Its thread is abandoned, never joined, and counted by
  ``call_thread.abandoned_threads()`` until it ends by itself. The ``EnvThread`` is then ``lost`` and refuses further
  calls.
* Any exception of the environment, ``SystemExit`` included, arrives as ``EnvironmentFailed`` with the last lines of its
  traceback. The thread continues, so a reset may follow.
* ``SandboxBroken`` of a step is not an exception but the end of the episode without a reward: the agent broke its
  sandbox. Every other ``SandboxError`` is a failure.
* Return values are checked in the thread (``runner.step_result``), so large observations do not block the event loop.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...sandbox.errors import SandboxBroken
from ..base import TurnEnv, provides
from ..errors import EnvError, EnvironmentFailed, EnvTimeout, ScoringTimeout
from ..registry import make
from ..tasks import env_package
from .call_thread import Place
from .calls import Calls, Overrun, is_slow
from .observations import instructions, picture
from .once import checked_seeds
from .step_result import StepResult, broken_sandbox, from_reset, from_step
from .thoughts import without_thoughts

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
        self.charges_steps = False
        """``TurnEnv.charges_steps``; set by ``make``."""
        self.restorable = False
        """Whether ``snapshot`` and ``restore`` work; set by ``make``."""
        self.runner = "gym"
        """``TurnEnv.runner``; set by ``make``."""
        self.has_screenshots = False
        """Whether the environment defines ``screenshot``; set by ``make``."""
        self.instructions = ""
        """The environment's system prompt, set by ``make``."""
        self.holds_sandbox = False
        """Whether an idle environment may still hold a lease: it must be closed, not reused. Set by ``make``."""
        self.package = ""
        """The installed package of the environment, with its version (``envs.tasks.env_package``); set by ``make``."""
        self._place = Place()
        self._calls: Calls | None = None
        """The calls in the thread of the environment; None before ``make`` and after ``close``."""
        self._key = f"{env_id} {json.dumps(self.options, sort_keys=True, default=str)}"

    async def make(self, timeout_s: float) -> None:
        """Start the thread and construct the environment in it. A cancellation abandons the thread.

        Raises:
            UnknownEnvironment: the id is not registered; and the errors of the class.
        """
        place = self._place
        self._calls = own = Calls(self.env_id, place)

        def construct() -> TurnEnv:
            place.env = env = make(self.env_id, **self.options)
            self.instructions = instructions(env)
            self.package = env_package(self.env_id)
            self.restorable = bool(env.restorable)
            self.holds_sandbox = bool(env.sandboxed and not env.keeps_sandbox)
            self.deterministic = bool(env.deterministic)
            self.charges_steps = bool(env.charges_steps)
            self.runner = str(env.runner)
            self.has_screenshots = provides(env, "screenshot")
            return env

        try:
            env = await self._call("make", construct, timeout_s)
        except EnvError:
            self._leave()
            raise
        except BaseException:
            own.abandon()
            self.lost, self._calls = True, None
            raise
        if not env.thread_bound and not is_slow(self._key):
            self._move(Calls.shared(), Place(env))

    async def reset(self, seed: int, split: str, timeout_s: float) -> StepResult:
        """Start an episode."""

        def work(env: TurnEnv) -> StepResult:
            began, env.deadline = time.perf_counter(), time.monotonic() + timeout_s
            answer = env.reset(seed=seed, options={"split": split})
            return from_reset(env, answer, (time.perf_counter() - began) * 1e3)

        return await self.run("reset", work, timeout_s)

    @property
    def is_scoring(self) -> bool:
        """Return whether the running step scores the episode, or did."""
        return self._place.scoring_s > 0

    async def step(self, action: str, timeout_s: float, scoring_timeout_s: float | None = None) -> StepResult:
        """Take one turn with the answer in ``action``: the environment receives no leading thoughts.

        Scoring in it has a timeout of its own; by default, it is as long.
        """

        def work(env: TurnEnv) -> StepResult:
            began, env.deadline = time.perf_counter(), time.monotonic() + timeout_s
            env.scoring_timeout_s = timeout_s if scoring_timeout_s is None else scoring_timeout_s
            try:
                answer = env.step(without_thoughts(action))
            except SandboxBroken as error:
                answer = broken_sandbox(error)
            return from_step(env, answer, (time.perf_counter() - began) * 1e3)

        return await self.run("step", work, timeout_s)

    async def tasks(self, split: str, timeout_s: float) -> Sequence[int] | None:
        """Return the seeds of all tasks of a split; None if every seed is a task."""
        return await self.run("tasks", lambda env: checked_seeds(self.env_id, split, env.tasks(split)), timeout_s)

    async def screenshot(self, timeout_s: float) -> bytes | None:
        """Return a picture of the current state, as PNG; None if the environment has none."""
        return await self.run("screenshot", lambda env: picture(env.screenshot()), timeout_s)

    async def snapshot(self, timeout_s: float) -> Any:
        """Return the state of the running episode, for ``restore``; None if it has none now."""
        return await self.run("snapshot", lambda env: env.snapshot(), timeout_s)

    async def restore(self, snapshot: Any, timeout_s: float) -> None:
        """Continue the episode of a snapshot, which an environment with the same options took."""
        await self.run("restore", lambda env: env.restore(snapshot), timeout_s)

    async def run(self, what: str, work: Callable[[TurnEnv], T], timeout_s: float) -> T:
        """Run a function of the environment in its thread; ``what`` names it in errors."""
        if self._calls is None and not self.lost:
            raise EnvironmentFailed(f"{self.env_id} {what}: the environment is not made, or already closed")
        if self._calls is not None and self._calls.is_shared and is_slow(self._key):
            place = Place(self._place.env)
            self._move(Calls(self.env_id, place), place)
        env = self._place.env
        self._place.forget_scoring()
        return await self._call(what, lambda: work(env), timeout_s)  # type: ignore[arg-type]

    async def close(self, timeout_s: float) -> None:
        """Close the environment and end its thread. Raises nothing: a timeout leaves one more abandoned thread."""
        if self._calls is None:
            return
        place, env = self._place, self._place.env
        self._calls.bound(place, timeout_s)

        def work() -> None:
            place.env = None  # until then, an abandoned thread would close it
            if env is not None:
                env.close()

        try:
            if env is not None:
                await self._call("close", work, timeout_s)
        except EnvError:
            pass
        finally:
            self._leave()

    def _move(self, calls: Calls, place: Place) -> None:
        """Continue in another thread, at a new place."""
        self._place.env = None
        self._leave()
        self._calls, self._place = calls, place

    def _leave(self) -> None:
        if self._calls is not None:
            self._calls.leave()
            self._calls = None

    async def _call(self, what: str, work: Callable[[], T], timeout_s: float) -> T:
        name = f"{self.env_id} {what}"
        if self._calls is None:
            raise EnvTimeout(f"{name}: its thread was abandoned after an earlier call timed out")
        try:
            return await self._calls.call(self._place, self._key, name, work, timeout_s)
        except Overrun:
            self.lost, scoring = True, self.is_scoring
            self._leave()
            if scoring:
                raise ScoringTimeout(f"{name}: scoring exceeded its timeout; its thread is abandoned") from None
            raise EnvTimeout(f"{name} did not return within {timeout_s:g} s; its thread is abandoned") from None
