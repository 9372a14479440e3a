"""The engine replicas of a run and the policy version they serve.

* A new version reaches a part of the engines at a time, and the others sample: up to ``UPDATED_SHARE`` of them where
  engines read a copy of the weights, else one, since the learner's memory is sent to one after the other.
* An engine without a version does not generate. Ray restarts an engine that died, without its weights; a watch loads
  them again, so that every engine serves ``EngineGroup.version``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from ...agents.placement import lost_actor
from ...agents.weights.base import EngineLost, WeightSender
from ...base.logs import log_errors
from ...errors import TurnwiseError
from ..telemetry.counter_sums import CounterSums

LOG = logging.getLogger(__name__)

PUSH_TIMEOUT_S = 120.0
"""Seconds an engine may take to load new weights, a restart included; an allowance for the model is added."""
STOP_TIMEOUT_S = 15.0
"""Seconds an engine may take to stop before it is killed."""
RETRY_INTERVAL_S = 0.5
"""Seconds between two calls to an engine that is being restarted."""
WATCH_INTERVAL_S = 2.0
"""Seconds between two checks of the engines' versions."""
UPDATED_SHARE = 0.25
"""Largest share of the engines that an update pauses at the same time, if that is more than one engine."""
MAX_RESTARTS = 3
"""Restarts of engines between two updates after which the run fails."""
COUNTERS = ("busy_s", "steps", "sampled_tokens", "prompt_tokens", "cached_tokens")


class EngineGroup:
    """The engine actors of one run; none in an offline run."""

    def __init__(
        self,
        actors: Sequence[Any],
        allowance_s: float = 0.0,
        start_timeout_s: float = 0.0,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``allowance_s`` is the time that this model adds to the start of an engine: timeouts grow by it.
        ``start_timeout_s`` is the timeout of a start without it. ``note`` receives a line for the user when an engine
        has died, and when it serves again.
        """
        self.actors = list(actors)
        self.allowance_s = allowance_s
        self.start_timeout_s = start_timeout_s
        self._note = note
        self.version: int | None = None
        """The version that every engine is to serve; None before the first."""
        self.failure: TurnwiseError | None = None
        """The error for which the engines cannot serve; the training loop raises it."""
        self._sender: WeightSender | None = None
        """Sends the weights of ``version``; None for those of the folder that the engines were started with."""
        self._restarts = 0
        """Restarts since the last version."""
        self._pushing = asyncio.Lock()
        self._training = asyncio.Lock()
        """Held while the learner changes the weights that a transfer reads."""
        self._watching: asyncio.Task[None] | None = None
        self._counters = CounterSums(COUNTERS)

    @property
    def _timeout_s(self) -> float:
        return max(PUSH_TIMEOUT_S, self.start_timeout_s) + self.allowance_s

    def watch(self) -> None:
        """Start to reload the weights of restarted engines."""
        if self.actors:
            self._watching = asyncio.create_task(self._restore_versions())

    async def nodes(self) -> set[str]:
        """Return the Ray nodes that the engines run on; an engine that died names its next one.

        Raises:
            TurnwiseError: an engine did not answer in time.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return set(await asyncio.gather(*map(_node, self.actors)))
        except TimeoutError:
            raise TurnwiseError(
                f"an engine did not answer within {self._timeout_s:.4g} s: check in Ray's logs of the `Engine` actors "
                "why"
            ) from None

    async def publish(self, sender: WeightSender, version: int) -> None:
        """Load the learner's weights into a part of the engines at a time, between two steps of each, as ``version``.

        Meanwhile the other engines sample, with the version that they have.

        Raises:
            TurnwiseError: an engine did not load them in time.
        """
        async with self._pushing:
            if self.actors:
                await asyncio.to_thread(sender.write)
                self._sender = sender
            await self._serve(version)

    async def serve_loaded(self, version: int) -> None:
        """Serve the weights of the folder that the engines were started with as ``version``. Raises as ``publish``."""
        async with self._pushing:
            self._sender = None
            await self._serve(version)

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        """Inside the block the learner changes its weights, and publishes them at the end.

        If transfers read the learner's memory, no restarted engine is restored meanwhile: it would load weights of
        another version. After an error in the block none is restored either.
        """
        async with self._unchanging() as is_read:
            try:
                yield
            except BaseException:
                if is_read:
                    self.version = None
                raise

    @asynccontextmanager
    async def _unchanging(self) -> AsyncIterator[bool]:
        """Keep training and restoring apart if transfers read the learner's memory, and yield whether they do."""
        if self._sender is None or self._sender.keeps_weights:
            yield False
        else:
            async with self._training:
                yield True

    async def usage(self) -> dict[str, Any]:
        """Return sums over the engines since the first call: seconds of computing, steps, and tokens.

        An engine that does not answer adds its increment at a later call. One that restarted adds its counts from 0.
        """
        infos = {engine: actor.info.remote for engine, actor in enumerate(self.actors)}
        return await self._counters.read(infos, PUSH_TIMEOUT_S)

    async def close(self) -> None:
        """Stop and kill every engine."""
        import ray

        if self._watching is not None:
            self._watching.cancel()
        for actor in self.actors:
            with log_errors(LOG, "an engine did not stop; it is killed"):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await actor.stop.remote()
            ray.kill(actor)

    async def _serve(self, version: int) -> None:
        self.version, self._restarts = version, 0
        await self._load(range(len(self.actors)), version)

    async def _load(self, engines: Iterable[int], version: int) -> None:
        """Load ``version`` into a part of the engines at a time. Those that died follow when Ray has restarted them."""
        waiting, deadline = list(engines), None
        while waiting := await self._load_each(waiting, version):
            deadline = deadline or monotonic() + self._timeout_s
            if monotonic() > deadline:
                raise _late(waiting, version, self._timeout_s)
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def _load_each(self, engines: Sequence[int], version: int) -> list[int]:
        """Load ``version`` once into each engine, and return those that died."""
        is_copied = self._sender is None or self._sender.keeps_weights
        at_once = max(1, int(len(self.actors) * UPDATED_SHARE)) if is_copied else 1
        lost: list[int] = []
        for first in range(0, len(engines), at_once):
            part = engines[first : first + at_once]
            loading = (self._load_one(engine, version) for engine in part)
            found = await asyncio.gather(*loading, return_exceptions=True)  # no engine loads after this returned
            for engine, loaded in zip(part, found, strict=True):
                if isinstance(loaded, BaseException):
                    raise loaded
                if not loaded:
                    lost.append(engine)
        return lost

    async def _load_one(self, engine: int, version: int) -> bool:
        """Return whether an engine loaded the version; False if it died."""
        actor = self.actors[engine]
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._sender is None:
                    await actor.use_loaded_weights.remote(version)
                else:
                    await self._transfer(self._sender, engine, version)
        except lost_actor():
            return False
        except EngineLost:
            return False
        except TimeoutError:
            raise _late([engine], version, self._timeout_s) from None
        return True

    async def _transfer(self, sender: WeightSender, engine: int, version: int) -> None:
        """Send the weights to an engine, while it executes ``update_weights``.

        Raises:
            EngineLost, or one of ``lost_actor``: the engine died.
            TurnwiseError: the learner failed.
        """
        actor = self.actors[engine]
        if sender.keeps_weights:
            await actor.update_weights.remote(sender.offer(engine, ""), version)
            return
        incarnation = (await actor.info.remote())["incarnation"]
        offer = await asyncio.to_thread(sender.offer, engine, incarnation)
        sending = asyncio.create_task(asyncio.to_thread(sender.send, engine))
        try:
            await actor.update_weights.remote(offer, version)
        finally:
            await sending

    async def _restore_versions(self) -> None:
        import ray.exceptions

        died: set[int] = set()
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            for engine, actor in enumerate(self.actors):
                try:
                    async with asyncio.timeout(self._timeout_s):
                        info = await actor.info.remote()
                except (ray.exceptions.RayError, TimeoutError) as error:
                    if engine not in died and isinstance(error, lost_actor()):
                        self._note(f"engine {engine} died; Ray starts it again, and its episodes wait or are retried")
                        died.add(engine)
                    continue
                if engine in died and info["version"] is not None:
                    self._note(f"engine {engine} serves again")
                    died.remove(engine)
                if info["version"] is None and self.version is not None:
                    try:
                        async with self._unchanging():
                            await self._restore(engine)
                    except TurnwiseError as error:
                        self.failure = error
                        return
                    except Exception as error:
                        LOG.exception("a restarted engine could not be restored", extra={"engine": engine})
                        self.failure = TurnwiseError(
                            f"engine {engine} was restarted and could not load version {self.version}: "
                            f"{type(error).__name__}: {error}"
                        )
                        self.failure.__cause__ = error
                        return

    async def _restore(self, engine: int) -> None:
        """Load the version to serve into an engine that was restarted, unless a new version has reached it.

        Raises:
            TurnwiseError: the engine did not load it, or engines died more than ``MAX_RESTARTS`` times.
        """
        import ray.exceptions

        async with self._pushing:
            try:
                is_served = (await self.actors[engine].info.remote())["version"] is not None
            except ray.exceptions.RayError:
                return
            if is_served or self.version is None:
                return
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                raise TurnwiseError(
                    f"engines died {self._restarts} times since the last update: check in Ray's logs of the `Engine` "
                    "actors whether they can run this model"
                )
            await self._load([engine], self.version)


async def _node(actor: Any) -> str:
    """Return the Ray node of an engine, as soon as the engine answers."""
    while True:
        try:
            name: str = (await actor.info.remote())["node"]
        except lost_actor():
            await asyncio.sleep(RETRY_INTERVAL_S)
        else:
            return name


def _late(engines: Sequence[int], version: int, timeout_s: float) -> TurnwiseError:
    numbers = ", ".join(map(str, engines))
    return TurnwiseError(f"engine {numbers} did not load version {version} within {timeout_s:.4g} s")
