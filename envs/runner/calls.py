"""The calls of environments in one thread, each with a timeout.

A thread per environment costs two switches of threads per call, which is more than a call that takes microseconds. So
environments share one: the calls that wait at the same time run one after another, and their results return to the
event loop together. The other environments have a thread each.

* Only environments that are not ``thread_bound`` share the thread.
* The timeout of a call counts from its start, without the time in which it scores (``TurnEnv.scoring``). When it
  expires, the thread is abandoned with that call alone: a new thread takes over the calls behind it.
* Calls in the shared thread are measured. Once those of an environment take long on average, its instances leave for
  threads of their own, so that they do not wait for one another.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..errors import wrap_error
from .call_thread import CallThread, Place

T = TypeVar("T")

MEAN_CALL_MAX_S = 0.005
"""Mean duration of the calls of an environment, in seconds, above which its instances do not share a thread."""
POLL_INTERVAL_S = 1.0
"""Seconds between checks of a late call, whose timeout moves while it scores."""
MEAN_RATE = 0.02
"""Weight of one call in that mean. A call of 0.25 s exceeds the bound alone."""

_mean_s: dict[str, float] = {}
"""Moving mean of the duration of a call, by key of the environment."""
_shared: "WeakKeyDictionary[asyncio.AbstractEventLoop, Calls]" = WeakKeyDictionary()


class Overrun(Exception):
    """A call exceeded its timeout; its environment is lost."""


class _Call:
    """One call. The thread sets its times; everything else belongs to the event loop."""

    __slots__ = ("_claim", "began", "ended", "future", "is_awaited", "key", "name", "place", "timeout_s", "work")

    def __init__(self, place: Place, key: str, name: str, work: Callable[[], Any], timeout_s: float) -> None:
        self.place = place
        self.key = key
        self.name = name
        self.work = work
        self.timeout_s = timeout_s
        self.is_awaited = True
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.began = self.ended = 0.0
        self._claim = threading.Lock()

    def run(self) -> Any:
        """Run the call, unless the thread before this one began it."""
        if not self._claim.acquire(blocking=False):
            raise _Claimed
        self.began = monotonic()
        try:
            return self.work()
        finally:
            self.ended = monotonic()

    def due(self, now: float) -> float:
        """Return when the call times out; scoring is added to its timeout, unless nobody awaits it any more."""
        return (self.began or now) + self.timeout_s + (self.place.scoring_s if self.is_awaited else 0.0)


class _Claimed(BaseException):
    """Another thread runs the call."""


class Calls:
    """The calls in one thread, of one or of many environments; every method is called in one event loop."""

    def __init__(self, name: str, place: Place | None = None) -> None:
        """``place`` is that of the only environment; None for a shared thread."""
        self._loop = asyncio.get_running_loop()
        self._name, self._place = name, place
        self._thread = CallThread(name, place)
        self._thread.start()
        self._calls: deque[_Call] = deque()
        """Calls without a delivered result, in their order."""
        self._results: deque[tuple[_Call, Any, BaseException | None]] = deque()
        self._is_waking = False
        """Whether the event loop will take the results."""
        self._watch: asyncio.TimerHandle | None = None
        self._users = 1

    @classmethod
    def shared(cls) -> "Calls":
        """Return the shared thread of the running loop for one more environment, which must ``leave`` it."""
        loop = asyncio.get_running_loop()
        calls = _shared.get(loop)
        if calls is None:
            calls = _shared[loop] = cls("shared")
        else:
            calls._users += 1
        return calls

    @property
    def is_shared(self) -> bool:
        """Return whether several environments may use the thread."""
        return self._place is None

    def leave(self) -> None:
        """Give up the place of one environment; the thread ends with the last one."""
        self._users -= 1
        if not self._users:
            self._thread.inbox.put(None)
            if _shared.get(self._loop) is self:
                del _shared[self._loop]

    def abandon(self) -> None:
        """End the thread of one environment after its present call."""
        self._calls.clear()
        self._thread.abandon()

    async def call(self, place: Place, key: str, name: str, work: Callable[[], T], timeout_s: float) -> T:
        """Run ``work``, a call of the environment in ``place``, and return its result.

        Args:
            key: names the environments whose calls are measured together, in a shared thread.
            name: names the call in errors.

        Raises:
            Overrun: it, or a call of the environment before it, did not return within its timeout.
            EnvError: it raised (``errors.wrap_error``).
        """
        if not self.is_shared:
            self.bound(place, timeout_s)
        one = _Call(place, key if self.is_shared else "", name, work, timeout_s)
        self._calls.append(one)
        self._submit(one)
        self._watch_until(monotonic() + timeout_s)
        result: T = await one.future
        return result

    def bound(self, place: Place, timeout_s: float) -> None:
        """Bound the wait for the calls in ``place`` that nobody awaits any more to ``timeout_s`` from now."""
        now = monotonic()
        for call in self._calls:
            if call.place is place:
                call.timeout_s = min(call.timeout_s, now - (call.began or now) + timeout_s)
                call.is_awaited = False

    def _submit(self, one: _Call) -> None:
        def deliver(result: Any, error: BaseException | None) -> None:
            if isinstance(error, _Claimed):
                return
            self._results.append((one, result, error))
            if not self._is_waking:
                self._is_waking = True
                try:
                    self._loop.call_soon_threadsafe(self._settle)
                except RuntimeError:  # the loop is closed
                    return

        self._thread.inbox.put((one.run, deliver))

    def _settle(self) -> None:
        self._is_waking = False
        while self._results:
            one, result, error = self._results.popleft()
            if one not in self._calls:
                continue  # it returned after its timeout
            self._calls.remove(one)
            mean = _mean_s.get(one.key, 0.0)
            _mean_s[one.key] = mean + MEAN_RATE * (one.ended - one.began - mean)
            if one.future.done():
                continue
            if error is None:
                one.future.set_result(result)
            else:
                one.future.set_exception(wrap_error(one.name, error))

    def _watch_until(self, due: float) -> None:
        if self._watch is not None:
            if self._watch.when() <= self._loop.time() + due - monotonic():
                return
            self._watch.cancel()
        self._watch = self._loop.call_later(max(0.0, due - monotonic()), self._check)

    def _check(self) -> None:
        """Abandon the thread if its call exceeded its timeout, and wait for the next timeout."""
        self._watch = None
        self._settle()
        now = monotonic()
        late = [call for call in self._calls if call.began and now >= call.due(now)]
        if late:
            self._replace(late)
        if self._calls:
            self._watch_until(min(now + POLL_INTERVAL_S, *(call.due(now) for call in self._calls)))

    def _replace(self, late: list[_Call]) -> None:
        # The abandoned thread alone closes its environment, after the call: a new one would close it during the call.
        thread, self._thread = self._thread, CallThread(self._name)
        self._thread.start()
        thread.place = late[0].place
        thread.abandon()
        lost = [one.place for one in late]
        for one in [call for call in self._calls if call.place in lost]:
            self._calls.remove(one)
            _mean_s[one.key] = 2 * MEAN_CALL_MAX_S
            if not one.future.done():
                one.future.set_exception(Overrun())
        for call in self._calls:
            self._submit(call)
        if not self._users:
            self._thread.inbox.put(None)


def is_slow(key: str) -> bool:
    """Return whether the calls of the environments with this key take too long to share a thread."""
    return _mean_s.get(key, 0.0) > MEAN_CALL_MAX_S
