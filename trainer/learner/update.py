"""The learning side of a run: lease, assemble, update, acknowledge, push; again.

The acknowledgement consumes the batch and records the new version in one transaction, after the optimizer step and
before the engines hear of it. So a death anywhere loses at most the updates since the last checkpoint, and consumes
nothing twice.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ...errors import TurnwiseError
from ...records import Group, GroupState, PolicyVersion
from ..context import RunContext
from ..failpoints import failpoint
from ..telemetry.events import UpdateDone
from .batch import assemble
from .batch_stats import batch_items, batch_metrics
from .local import Learner

LEASE_SECONDS = 600.0
"""How long the learner may hold a batch."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One update, done and acknowledged."""

    version: int
    update: int
    metrics: dict[str, Any]
    waited: float
    """Seconds the learner waited for its batch."""


class Learning:
    """Makes one update after another."""

    def __init__(
        self,
        context: RunContext,
        learner: Learner,
        history: dict[int, PolicyVersion],
    ) -> None:
        config, streams = context.config, context.streams
        self._config = config
        self._learner = learner
        self._store = context.store
        self.history = history
        """Versions by id, abandoned ones included."""
        self._replay_stream = streams.of("replay_buffer")
        self._filter_streams = [streams.of("sample_filters", i) for i in range(len(config.sample_filters))]
        self._texts = any(one.needs_texts for one in config.rewards)
        self.nothing = ""
        """Why the last batch held nothing to train on; empty where it did."""

    async def lease(self) -> list[Group]:
        """A batch of groups, or none if too few are ready."""
        count = self._config.rollout.groups_per_batch
        failpoint("before_lease")
        ids = await self._store.lease(count, LEASE_SECONDS)
        failpoint("after_lease")
        if not ids:
            return []
        return await self._store.load(ids, texts=self._texts)

    async def update(
        self, groups: Sequence[Group], parent: PolicyVersion, decay: float, waited: float
    ) -> Trained | None:
        """One update from leased groups; None if the sweep left nothing to train on.

        Raises:
            NotFinite: see ``Learner.update``; the lease is given back.
        """
        started = monotonic()
        algorithms = self._config
        batch = await asyncio.to_thread(
            assemble,
            algorithms.replay_buffer.mix(groups, self._replay_stream),
            self.history,
            parent.update,
            self._config.rollout.max_staleness,
            shapers=algorithms.rewards,
            advantage=algorithms.advantage,
            filters=algorithms.sample_filters,
            loss=algorithms.loss,
            streams=self._filter_streams,
        )
        if batch.expired:
            await self._store.expire(list(batch.expired), "every token is too old, or unscored")
        self.nothing = ""
        if not batch.groups:
            self.nothing = f"{batch.unscored} members had no score, and every other token was too old"
            return None
        assembled = monotonic()
        try:
            trained = await asyncio.to_thread(self._learner.update, batch.samples, decay, parent.update)
        except TurnwiseError:
            await self._store.release()
            raise
        failpoint("after_optimizer")
        metrics = {
            **trained,
            **batch_metrics(groups, batch),
            "waited_s": waited,
            "assemble_s": assembled - started,
            "learn_s": monotonic() - assembled,
        }
        update = parent.update + 1
        fresh = {group.id for group in groups}
        version = await self._store.acknowledge(
            [group for group in batch.groups if group in fresh],
            update=update,
            parent=parent.id,
            items=batch_items(batch, fresh),
            metrics=metrics,
        )
        failpoint("after_acknowledge")
        self.history[version] = PolicyVersion(self._store.run, version, parent.id, update)
        return Trained(version, update, metrics, waited)


def update_done(trained: Trained, seconds: float, total: float, groups: Mapping[GroupState, int]) -> UpdateDone:
    """The event of an update that took ``seconds``, after ``total`` seconds of training."""
    values = trained.metrics
    learned = values["learn_s"] + values["assemble_s"]
    return UpdateDone(
        update=trained.update,
        version=trained.version,
        success=values["success"],
        reward=values["reward"],
        horizon_turns=values["horizon_turns"],
        staleness_mean=values["staleness_mean"],
        staleness_max=values["staleness_max"],
        tokens_per_s=values["tokens"] / seconds,
        turns_per_s=values["turns"] / seconds,
        groups=groups,
        waiting="rollouts" if trained.waited > learned else "learner",
        loss=values["loss"],
        entropy=values.get("entropy", float("nan")),
        seconds=total,
    )
