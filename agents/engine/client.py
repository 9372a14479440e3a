"""The client of the policy engines: ``await client.generate(session, prompt, ...)``.

* Requests that arrive within a short window share one Ray call per engine.
* A session stays on one engine, so that the prefix cache serves its next turn; it moves if that engine dies.
* Every wait has a timeout, and its error names the engine and its state. A late answer of an engine that responds is
  a failure of the policy, as that of a server is; a late answer of any other is one of the engine.
* A request is never repeated silently: if its engine dies, the request fails and the caller decides.
"""

import asyncio
import itertools
import random
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any

from ..errors import EngineFailed, PolicyFailed
from ..tokens.renderer import ImageSpan
from .request import UNSENT, Completion, Request, Sampling

BATCH_WINDOW_S = 0.04
"""Batching window: an engine step costs about the same for one request as for ten."""
FLUSH_SHARE = 0.5
"""Flush early once this share of the sessions has a queued request; others wait for ``BATCH_WINDOW_S`` at most. With a
smaller share, an engine on a CPU takes more and smaller steps."""
POLL_TIMEOUT_S = 2.0
MAX_SILENCE_S = 3 * POLL_TIMEOUT_S
"""Seconds since the last response to a poll after which an engine counts as silent."""
RETRY_INTERVAL_S = 0.25
MAX_SESSIONS = 65_536
IMAGES_KNOWN = 65_536
"""Hashes of sent images that a client remembers."""


class PolicyClient:
    """Routes requests to engine replicas. Belongs to the event loop that first uses it; ``close`` it there."""

    def __init__(self, engines: Sequence[Any], sampling: Sampling) -> None:
        """``sampling`` is that of every request without its own."""
        if not engines:
            raise ValueError("a policy client needs at least one engine")
        self._sampling = sampling
        client = uuid.uuid4().hex[:8]
        self._replicas = [_Replica(handle, i, f"{client}/{i}") for i, handle in enumerate(engines)]
        random.shuffle(self._replicas)  # the first one of several idle replicas differs between clients
        self._sessions: OrderedDict[str, _Replica] = OrderedDict()

    async def generate(
        self,
        session: str,
        prompt: list[int],
        max_tokens: int,
        timeout_s: float,
        sampling: Sampling | None = None,
        images: Sequence[ImageSpan] = (),
        contents: Mapping[str, bytes] | None = None,
    ) -> Completion:
        """Sample one turn that continues ``prompt``, as ``Request`` describes it.

        Args:
            images: the places of the images in ``prompt``.
            contents: those images as PNG, by hash; each is sent to an engine once, and again if the engine dropped it.

        Raises:
            EngineFailed: the engine died, rejected the request, returned no token ids, or did not answer within
                ``timeout_s`` and does not respond or has no weights.
            PolicyFailed: the engine responds, and did not complete the answer within ``timeout_s``.
            CancelledError: the caller was cancelled; the cause is an ``EngineFailed`` if the engine does not respond.
        """
        replica = self._route(session)
        shown = {span.blob: (contents or {})[span.blob] for span in images}
        request = Request(prompt, max_tokens, sampling or self._sampling, images, shown)
        number, future = replica.start(request)
        try:
            async with asyncio.timeout(timeout_s):
                while (completion := await future).finish_reason == UNSENT:
                    replica.forget_images(request)
                    number, future = replica.start(request)
                return completion
        except TimeoutError:
            raise replica.late(timeout_s) from None
        except asyncio.CancelledError:
            if reason := replica.problem():
                raise asyncio.CancelledError from EngineFailed(reason)
            raise
        finally:
            replica.abort(number)

    def release(self, session: str) -> None:
        """End a session; its engine is no longer reserved for it."""
        replica = self._sessions.pop(session, None)
        if replica is not None:
            replica.sessions -= 1

    async def close(self) -> None:
        """Stop polling; open requests fail."""
        for replica in self._replicas:
            await replica.close()

    def _route(self, session: str) -> "_Replica":
        replica = self._sessions.get(session)
        if replica is not None and not replica.down:
            self._sessions.move_to_end(session)
            return replica
        if replica is not None:
            self.release(session)
        living = [r for r in self._replicas if not r.down] or self._replicas
        replica = min(living, key=lambda r: (len(r.open), r.sessions))
        replica.sessions += 1
        self._sessions[session] = replica
        if len(self._sessions) > MAX_SESSIONS:
            self.release(next(iter(self._sessions)))
        return replica


class _Replica:
    """One engine: its queued requests, its open requests, and the loop that polls it."""

    def __init__(self, handle: Any, index: int, client: str) -> None:
        self._handle = handle
        self._label = f"engine {index}"
        self._client = client
        self._numbers = itertools.count()
        self._queue: list[tuple[int, Request]] = []
        self._aborted: list[int] = []
        self._sent = set[str]()
        """The hashes of the images that the engine got from this client, and may have dropped."""
        self._flush_timer: asyncio.TimerHandle | None = None
        self._incarnation = ""
        self._state = "has not answered yet"
        self._responded_at = -inf
        """Time of the last response to a poll, by the monotonic clock."""
        self._has_weights = False
        self._poller: asyncio.Task[None] | None = None
        self.open: dict[int, asyncio.Future[Completion]] = {}
        self.sessions = 0
        self.down = False

    def start(self, request: Request) -> tuple[int, asyncio.Future[Completion]]:
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        self.open[number] = future = loop.create_future()
        self._queue.append((number, request))
        self._schedule(loop)
        if self._poller is None:
            self._poller = loop.create_task(self._run(), name=f"poll {self._label}")
        return number, future

    def forget_images(self, request: Request) -> None:
        """Send the images of a request again with the next request that has them."""
        self._sent.difference_update(request.contents)

    def _without_sent(self, request: Request) -> Request:
        """Return a request with those of its images that were not sent, and count them as sent."""
        if not request.images:
            return request
        unsent = {name: content for name, content in request.contents.items() if name not in self._sent}
        if len(self._sent) > IMAGES_KNOWN:
            self._sent.clear()
        self._sent.update(unsent)
        return replace(request, contents=unsent)

    def abort(self, number: int) -> None:
        """End a request, unless it is answered."""
        if self.open.pop(number, None) is not None:
            self._aborted.append(number)
            self._schedule(asyncio.get_running_loop())

    def late(self, timeout_s: float) -> EngineFailed | PolicyFailed:
        """Return the error of a request that is not answered in time."""
        error = EngineFailed if self.problem() else PolicyFailed
        return error(
            f"no answer from {self._label} within {timeout_s:g} s; it {self._state}, "
            f"with {len(self.open) - 1} other requests open"
        )

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        self._fail_all("the client was closed")

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.down:
            return
        if len(self._queue) >= FLUSH_SHARE * self.sessions:
            loop.call_soon(self._flush)
        elif self._flush_timer is None:
            self._flush_timer = loop.call_later(BATCH_WINDOW_S, self._flush)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self.down or not (self._queue or self._aborted):
            return
        queue = [(number, self._without_sent(request)) for number, request in self._queue if number in self.open]
        aborted, self._queue, self._aborted = self._aborted, [], []
        self._handle.submit.options(num_returns=0).remote(self._client, queue, aborted)

    async def _run(self) -> None:
        from ray.exceptions import RayError

        while True:
            wait_s = POLL_TIMEOUT_S if self._incarnation else 0.0  # the first response shows that the engine is up
            try:
                incarnation, version, completions = await self._handle.poll.remote(self._client, wait_s)
            except RayError as error:
                self._mark_down(f"{self._label} died ({type(error).__name__})")
                await asyncio.sleep(RETRY_INTERVAL_S)
                continue
            if self._incarnation not in ("", incarnation):
                self._mark_down(f"{self._label} died and was restarted")
            self._incarnation, self._responded_at, self._has_weights = incarnation, monotonic(), version is not None
            self._state = "has no weights yet" if version is None else f"serves version {version}"
            for number, completion in completions:
                self._finish(number, completion)
            if self.down:
                self.down = False
                self._flush()

    def _finish(self, number: int, completion: Completion) -> None:
        future = self.open.pop(number, None)
        if future is None or future.done():
            return
        if completion.finish_reason != UNSENT and (reason := completion.defect()):
            future.set_exception(EngineFailed(f"{self._label} returned {reason}"))
        else:
            future.set_result(completion)

    def problem(self) -> str:
        """Return why the engine cannot complete an answer now; empty if it serves a version and responds."""
        silent = monotonic() - self._responded_at > MAX_SILENCE_S
        if self.down or silent or not self._has_weights:
            return f"{self._label} does not respond; it {self._state}" if silent else f"{self._label} {self._state}"
        return ""

    def _mark_down(self, reason: str) -> None:
        """Fail every request that was sent to the engine; queued requests wait for its restart."""
        self.down = True
        self._incarnation = ""
        self._sent.clear()
        self._state = "died and is restarting"
        queued = {entry[0] for entry in self._queue}
        self._aborted = []
        self._fail_all(reason, keep=queued)

    def _fail_all(self, reason: str, keep: set[int] | frozenset[int] = frozenset()) -> None:
        for number in [number for number in self.open if number not in keep]:
            future = self.open.pop(number)
            if not future.done():
                future.set_exception(EngineFailed(reason))
