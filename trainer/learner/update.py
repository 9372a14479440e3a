"""Run the learner's side of a training step: lease a batch, mix in reused groups, assemble it, update, acknowledge.

The acknowledgment consumes the batch and records the new version in one transaction, after the optimizer steps and
before any engine serves the version. If a process dies, the run therefore loses at most the updates since its last
checkpoint, and consumes no group twice. Only leased groups are consumed or expire; a reused group keeps its state.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ...agents.demonstrations import DemonstrationEncoder
from ...errors import TurnwiseError
from ...records import GroupState, PolicyVersion, ScoredGroup
from ..context import RunContext
from ..failpoints import failpoint
from ..telemetry.events import REWARD_PART, UpdateDone
from ..telemetry.limits import notable
from ..telemetry.progress import remaining
from .backends.base import LearnerBackend
from .batch import Batch, assemble
from .batch_stats import batch_items, batch_metrics
from .provenance.recipe import new_recipe
from .provenance.recording import LogprobTrace, UpdateRecord, engine_mismatch, record_update
from .samples import UNKNOWN_VERSION_STALENESS
from .stored_images import StoredImages

LEASE_TIMEOUT_S = 600.0
"""Seconds until the lease of a batch ends."""
NOTHING_TRAINED = "no token to train on: all are too stale, or of sources that the loss does not accept"
"""Why a leased group expires."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """An acknowledged update."""

    version: int
    """Id of the new version."""
    update: int
    """Updates done, this one included."""
    metrics: dict[str, Any]
    """Metrics by name, as stored; ``docs/guide/metrics.md`` explains each."""


class UpdateStep:
    """Trains on one batch after another; each update creates a version."""

    def __init__(
        self,
        context: RunContext,
        learner: LearnerBackend,
        history: dict[int, PolicyVersion],
        sampled_by: Mapping[int, PolicyVersion] | None = None,
    ) -> None:
        """Train on leased groups of the run, or on stored groups of another run.

        Args:
            history: all versions of the run by id, abandoned versions included; each update adds its version.
            sampled_by: the versions of the other run. Nothing is leased then, every group counts as reuse, and no
                staleness bound applies: the loss corrects for the difference to the current policy.
        """
        config, algorithms, streams = context.config, context.algorithms, context.streams
        self._config = config
        self._algorithms = algorithms
        self._learner = learner
        self._store = context.store
        self.history = history
        self._sampled_by = sampled_by
        self._needs_texts = algorithms.advantage.needs_texts or algorithms.replay_buffer.needs_texts
        tokenizer = context.folder / "tokenizer"
        encode = DemonstrationEncoder(context.database, tokenizer, config.max_context, config.horizon.max_images)
        self._reader = context.store.reader(texts=self._needs_texts, encode=encode)
        self._images = StoredImages(context.database, tokenizer)
        self._replay_stream = streams.of("replay_buffer")
        self._minibatch_stream = streams.of("minibatches")
        self._filter_streams = [streams.of("sample_filters", i) for i in range(len(algorithms.sample_filters))]
        self.skip_reason = ""
        """The reason that the last batch had nothing to train on; empty if it had."""
        self.skipped_by_buffer = False
        """Whether the last batch had nothing to train on because the replay buffer left out every leased group."""

    def progress(self, update: int, seconds: float) -> str:
        """Return a line about an update that began ``seconds`` ago."""
        done, total = self._learner.passed
        return f"update {update}: {f'{done:,} of {total:,} tokens, ' * bool(total)}{remaining(done, total, seconds)}"

    async def lease(self) -> list[ScoredGroup]:
        """Return a batch of groups with their stored rewards, or an empty list if too few groups are ready."""
        count = self._config.rollout.groups_per_batch
        failpoint("before_lease")
        ids = await self._store.lease(count, LEASE_TIMEOUT_S)
        failpoint("after_lease")
        if not ids:
            return []
        return await self._store.load_scored(ids, texts=self._needs_texts)

    async def update(
        self, groups: Sequence[ScoredGroup], parent: PolicyVersion, lr_progress: float, wait_s: float
    ) -> UpdateResult | None:
        """Train on leased groups and acknowledge them; return None if they contain nothing to train on.

        Args:
            parent: the version being updated.
            lr_progress: share of the learning rate schedule that has passed, 0 to 1.
            wait_s: seconds that the learner waited for the batch.

        Raises:
            TurnwiseError: the batch could not be assembled, or an optimizer step was rejected; the lease is released.
        """
        start = monotonic()
        try:
            batch = await asyncio.to_thread(self._assemble, groups, parent.update)
        except TurnwiseError:
            await self._store.release()
            raise
        await self._expire(groups, batch)
        if not batch.groups:
            return None
        assembled = monotonic()
        fresh = {group.group.id for group in groups} if self._sampled_by is None else set[str]()
        try:
            learner_metrics, record = await asyncio.to_thread(self._train, batch, fresh, lr_progress, parent.update)
        except TurnwiseError:
            await self._store.release()
            raise
        failpoint("after_optimizer")
        metrics = {
            **learner_metrics,
            **batch_metrics([group.group for group in groups], batch),
            **self._algorithms.component_metrics(),
            "batch_wait_s": wait_s,
            "assembly_s": assembled - start,
            "update_s": monotonic() - assembled,
        }
        update = parent.update + 1
        version = await self._store.acknowledge(
            record.groups,
            reused=record.reused,
            update=update,
            parent=parent.id,
            items=batch_items(batch, fresh, record.details, is_idle=not metrics["tokens"]),
            metrics=metrics,
            recipe=record.recipe.model_dump(mode="json"),
            weights_hash=record.weights_hash,
        )
        failpoint("after_acknowledge")
        self.history[version] = PolicyVersion(self._store.run, version, parent.id, update)
        return UpdateResult(version, update, metrics)

    def _assemble(self, groups: Sequence[ScoredGroup], update: int) -> Batch:
        """Return the batch of leased and reused groups. Blocks while the replay buffer reads the store."""
        algorithms = self._algorithms
        return assemble(
            algorithms.replay_buffer.batch(groups, self._reader, update, self._replay_stream),
            self.history if self._sampled_by is None else self._sampled_by,
            update,
            self._config.rollout.max_staleness if self._sampled_by is None else UNKNOWN_VERSION_STALENESS - 1,
            advantage=algorithms.advantage,
            filters=algorithms.sample_filters,
            loss=algorithms.loss,
            streams=self._filter_streams,
            replay_max_staleness=algorithms.replay_buffer.max_staleness,
            images=self._images,
        )

    def _train(
        self, batch: Batch, fresh: Collection[str], lr_progress: float, update: int
    ) -> tuple[dict[str, float], UpdateRecord]:
        """Return the metrics of the learner's update of a batch, and the record of the update."""
        components = self._algorithms.loss, self._algorithms.proximal
        states = {component.slot: state for component in components if (state := component.state_dict())}
        trace = LogprobTrace()
        metrics = self._learner.update(batch.samples, lr_progress, update, self._minibatch_stream, trace)
        metrics |= engine_mismatch(batch.samples, trace)
        recipe = new_recipe(self._learner.config, lr_progress, states)
        return metrics, record_update(batch, fresh, trace, recipe, self._learner.weights_hash())

    async def _expire(self, groups: Sequence[ScoredGroup], batch: Batch) -> None:
        """Expire the leased groups with nothing to train on, and set the reason if the whole batch has nothing.

        The groups of another run keep their states.
        """
        self.skip_reason = ""
        self.skipped_by_buffer = False
        if self._sampled_by is not None:
            unread = next(iter(batch.unreadable.values()), "no token of a source that the loss accepts")
            self.skip_reason = "" if batch.groups else unread
            return
        leased = [group.group.id for group in groups]
        stale = [name for name in leased if name in batch.expired]
        unreadable = {name: batch.unreadable[name] for name in leased if name in batch.unreadable}
        for name, reason in unreadable.items():
            await self._store.expire([name], reason)
        seen = {*batch.expired, *batch.groups, *unreadable}
        left_out = [name for name in leased if name not in seen]
        by_reason = {_unbegun(group) or NOTHING_TRAINED: list[str]() for group in groups}
        for group in groups:
            if group.group.id in stale:
                by_reason[_unbegun(group) or NOTHING_TRAINED].append(group.group.id)
        for reason, names in by_reason.items():
            if names:
                await self._store.expire(names, reason)
        if left_out:
            await self._store.expire(left_out, "left out by the replay buffer")
        if batch.groups:
            return
        self.skipped_by_buffer = not stale and not unreadable
        self.skip_reason = (
            next(iter(unreadable.values()))
            if unreadable
            else f"no trainable tokens: {_ends(groups)}"
            if stale and not batch.sampled_tokens
            else f"no trainable tokens: {batch.swept_tokens} of {batch.sampled_tokens} sampled tokens are too stale; "
            f"{_ends(groups)}"
            if stale
            else f"the replay buffer left out all {len(left_out)} groups"
        )


def _unbegun(scored: ScoredGroup) -> str:
    """Return why no episode of a group had a turn; empty if one had."""
    members = scored.group.trajectories
    if not members or any(one.steps for one in members):
        return ""
    return f"no episode had a turn: {next((one.stop_reason for one in members if one.stop_reason), members[0].status)}"


def _ends(groups: Sequence[ScoredGroup]) -> str:
    """Return how the episodes of a batch ended, with counts, and the reason of one that had no turn."""
    members = [one for group in groups for one in group.group.trajectories]
    ends = Counter(f"{one.status} by `horizon.{one.reached}`" if one.reached else str(one.status) for one in members)
    without = sum(not one.steps for one in members)
    reason = next((f", such as: {one.stop_reason}" for one in members if not one.steps and one.stop_reason), "")
    counts = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    return f"{len(members)} episodes ended: {counts}; {without} had no turn{reason}"


def update_event(
    result: UpdateResult,
    seconds: float,
    training_s: float,
    groups: Mapping[GroupState, int],
    *,
    is_offline: bool = False,
) -> UpdateDone:
    """Return the event of an update.

    Args:
        seconds: time since the last update.
        training_s: training time of the run so far.
        groups: groups of the run by state.
        is_offline: as ``UpdateDone.is_offline``.
    """
    metrics = result.metrics
    learner_s = metrics["update_s"] + metrics["assembly_s"]
    return UpdateDone(
        update=result.update,
        version=result.version,
        success=metrics["success"],
        reward=metrics["reward"],
        horizon_turns=metrics["horizon_turns"],
        staleness_mean=metrics["staleness_mean"],
        staleness_max=metrics["staleness_max"],
        tokens_per_s=metrics["tokens"] / seconds,
        turns_per_s=metrics["turns"] / seconds,
        groups=groups,
        waiting="rollouts" if metrics["batch_wait_s"] > learner_s else "learner",
        loss=metrics["loss"],
        entropy=metrics.get("entropy"),
        seconds=training_s,
        limits=notable(metrics),
        is_offline=is_offline,
        reward_parts={
            name.removeprefix(REWARD_PART): value for name, value in metrics.items() if name.startswith(REWARD_PART)
        },
    )
