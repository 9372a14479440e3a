"""The engine replicas of a run and the policy version they serve.

An engine without a version does not generate. Ray restarts an engine that died, without its weights; a watch loads
them again, so that every engine serves ``EngineGroup.version``.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from ...agents.weights.base import WeightBuffer
from ...errors import TurnwiseError
from ...logs import log_errors

LOG = logging.getLogger(__name__)

PUSH_TIMEOUT_S = 120.0
"""Seconds an engine may take to load new weights, a restart included."""
STOP_TIMEOUT_S = 15.0
"""Seconds an engine may take to stop before it is killed."""
RETRY_INTERVAL_S = 0.5
"""Seconds between two calls to an engine that is being restarted."""
WATCH_INTERVAL_S = 2.0
"""Seconds between two checks of the engines' versions."""
MAX_RESTARTS = 3
"""Restarts of engines between two updates after which the run fails."""
COUNTERS = ("busy_s", "sampled_tokens", "prompt_tokens", "cached_tokens")


class EngineGroup:
    """The engine actors of one run; none in an offline run."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self.actors = list(actors)
        self.version: int | None = None
        """The version that every engine is to serve; None before the first."""
        self.failure: TurnwiseError | None = None
        """The error for which the engines cannot serve; the training loop raises it."""
        self._written: Any = None
        """Location of the weights of ``version``; None for those of the folder that the engines were started with."""
        self._restarts = 0
        """Restarts since the last push."""
        self._pushing = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Start to reload the weights of restarted engines."""
        if self.actors:
            self._watching = asyncio.create_task(self._restore_versions())

    async def write(self, weights: WeightBuffer) -> None:
        """Copy the current weights to where engines read them, while no engine reads."""
        async with self._pushing:
            await self._copy(weights)

    async def push(self, version: int) -> None:
        """Load the weights as last written into every engine, between two of its steps, as ``version``.

        Raises:
            TurnwiseError: an engine did not load them within ``PUSH_TIMEOUT_S``.
        """
        async with self._pushing:
            await self._serve(version)

    async def publish(self, weights: WeightBuffer, version: int) -> None:
        """Write the current weights and load them into every engine as ``version``. Raises as ``push``."""
        async with self._pushing:
            await self._copy(weights)
            await self._serve(version)

    async def serve_loaded(self, version: int) -> None:
        """Serve the weights of the folder that the engines were started with as ``version``. Raises as ``push``."""
        async with self._pushing:
            self._written = None
            await self._serve(version)

    async def usage(self) -> dict[str, Any]:
        """Return sums over the engines since they started: seconds of computing, and tokens.

        All are 0 if an engine does not answer.
        """
        import ray.exceptions

        infos: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(PUSH_TIMEOUT_S):
                infos = await asyncio.gather(*(actor.info.remote() for actor in self.actors))
        except (ray.exceptions.RayError, TimeoutError):
            pass
        return {name: sum(one[name] for one in infos) for name in COUNTERS}

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

    async def _copy(self, weights: WeightBuffer) -> None:
        if self.actors:
            self._written = await asyncio.to_thread(weights.write)

    async def _serve(self, version: int) -> None:
        self.version, self._restarts = version, 0
        await asyncio.gather(*(self._load(actor, version) for actor in self.actors))

    async def _load(self, actor: Any, version: int) -> None:
        import ray.exceptions

        try:
            async with asyncio.timeout(PUSH_TIMEOUT_S):
                while True:
                    try:
                        if self._written is None:
                            await actor.use_loaded_weights.remote(version)
                        else:
                            await actor.update_weights.remote(self._written, version)
                    except ray.exceptions.RayActorError:
                        await asyncio.sleep(RETRY_INTERVAL_S)
                    else:
                        return
        except TimeoutError:
            raise TurnwiseError(f"an engine did not load version {version} within {PUSH_TIMEOUT_S:g} s") from None

    async def _restore_versions(self) -> None:
        import ray.exceptions

        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            for actor in self.actors:
                try:
                    async with asyncio.timeout(PUSH_TIMEOUT_S):
                        info = await actor.info.remote()
                except (ray.exceptions.RayError, TimeoutError):
                    continue
                if info["version"] is None and self.version is not None:
                    try:
                        await self._restore(actor)
                    except TurnwiseError as error:
                        self.failure = error
                        return

    async def _restore(self, actor: Any) -> None:
        """Load the version to serve into an engine that was restarted.

        Raises:
            TurnwiseError: the engine did not load it, or engines died more than ``MAX_RESTARTS`` times.
        """
        self._restarts += 1
        if self._restarts > MAX_RESTARTS:
            raise TurnwiseError(
                f"engines died {self._restarts} times since the last update: check in Ray's logs of the `Engine` "
                "actors whether they can run this model"
            )
        async with self._pushing:
            assert self.version is not None  # noqa: S101
            await self._load(actor, self.version)
