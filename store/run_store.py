"""The store as one run uses it: typed writes through the client, reads off the event loop.

Every write of a driver goes through here, so a write that lacks an argument or misspells one does not pass mypy. A
write returns after its commit; a read is retried while the database is locked or away, as writes are.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from sqlalchemy import Connection

from ..records import Group, GroupState, Outcome, ScoredGroup, Status
from . import operations, queries
from .content.rows import Tally
from .database import Database
from .database_errors import retried
from .maintenance.collect import Collected, collect
from .maintenance.policy import RetentionPolicy
from .operations import BatchItem, Rewards
from .operations.runs import lock_run
from .queries.run_reader import read_retried
from .writing.client import StoreClient

RECENT_BYTES_MAX = 256 << 20
"""Memory of the kept groups (``RecentGroups``), about; the oldest are dropped above it."""
RECORD_BYTES = 1024
"""Memory of a step or message without its content, about."""


class RecentGroups:
    """Groups loaded to be scored, kept until the learner leases them, so that each is read from the database once.

    The trajectories of a closed group no longer change, so a kept group equals the stored one.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, tuple[Group, bool, int]] = OrderedDict()
        self._size = 0

    def add(self, group: Group, *, texts: bool) -> None:
        """Keep a group in place of an earlier one of its id; ``texts`` is whether it has its observation texts."""
        self._remove(group.id)
        size = _size(group)
        self._groups[group.id] = group, texts, size
        self._size += size
        while self._size > RECENT_BYTES_MAX:
            self._remove(next(iter(self._groups)))

    def take(self, names: Iterable[str], *, texts: bool) -> dict[str, Group]:
        """Remove groups and return those that are kept, by id; with ``texts``, those that have their texts."""
        taken = {name: kept for name in names if (kept := self._remove(name))}
        return {name: group for name, (group, has_texts, _) in taken.items() if has_texts or not texts}

    def _remove(self, name: str) -> tuple[Group, bool, int] | None:
        kept = self._groups.pop(name, None)
        if kept is not None:
            self._size -= kept[2]
        return kept


def _size(group: Group) -> int:
    """Return the bytes of a group: 13 per token (its id, mask, log-probability and version), 4 per character."""
    messages = [message for trajectory in group.trajectories for message in trajectory.messages]
    steps = [step for trajectory in group.trajectories for step in trajectory.steps]
    texts = sum(len(step.observation) + len(step.action) for step in steps)
    return (
        13 * sum(len(message.tokens) for message in messages) + 4 * texts + RECORD_BYTES * (len(messages) + len(steps))
    )


P = ParamSpec("P")
T = TypeVar("T")


class RunStore:
    """One run in the store: its queue of groups, its history of versions and its metrics."""

    def __init__(self, run: str, database: Database, client: StoreClient) -> None:
        """``client`` takes the writes, ``database`` the reads."""
        self.run = run
        self.client = client
        self._database = database
        self._driver = uuid4().hex
        self.epoch: int | None = None
        """The number of this driver, which every write carries; None before ``create``."""
        self._recent = RecentGroups()

    @property
    def _owner(self) -> str:
        """The owner of this driver's leases."""
        return f"{self.run}/{self.epoch or 0}"

    async def create(
        self,
        *,
        config: Mapping[str, Any],
        config_hash: str,
        kind: str,
        code_version: str,
        parent: str | None = None,
        parent_version: int | None = None,
        git_revision: str = "",
        packages: Mapping[str, str] | None = None,
        after_update: int = 0,
        extends: bool = False,
    ) -> None:
        """Begin the run, or resume it after ``after_update`` if it has the same ``config_hash`` and is unfinished, or
        ``extends`` is set.

        From now on, the writes of earlier drivers of the run are refused.

        Raises:
            StoreConflict: the run cannot be resumed.
        """
        self.epoch = await self.client.commit(
            operations.create_run.bind(
                run=self.run,
                config=config,
                config_hash=config_hash,
                kind=kind,
                code_version=code_version,
                parent=parent,
                parent_version=parent_version,
                git_revision=git_revision,
                packages=packages,
                driver=self._driver,
                after_update=after_update,
                extends=extends,
            )
        )

    async def finish(self, status: str, error: str = "") -> None:
        """End the run as ``finished``, ``failed`` or ``stopped``."""
        await self.client.commit(operations.finish_run.bind(run=self.run, status=status, error=error, epoch=self.epoch))

    async def rewind(self, version: int | None) -> Mapping[str, int]:
        """Take the run back to ``version`` (None: to its beginning) and return the counts of changed rows."""
        tallies = await self._tallies(run=self.run)
        return await self.client.commit(
            operations.rewind.bind(run=self.run, version=version, tallies=tallies, epoch=self.epoch)
        )

    async def is_stop_requested(self) -> bool:
        """Return whether `turnwise runs stop` set the run's flag."""
        return (await self.read(queries.find_run)).stop_requested

    async def uid(self) -> str:
        """Return 32 hex digits that no run of another store has. Raises NotFound."""
        return (await self.read(queries.find_run)).uid.hex

    async def read(self, query: Callable[Concatenate[Connection, str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a query of this run, such as ``queries.versions``."""
        return await asyncio.to_thread(lambda: read_retried(self._database, query, self.run, *args, **kwargs))

    async def add_metrics(self, kind: str, update: int, metrics: Mapping[str, Any]) -> None:
        """Store metrics of one update under ``kind``; the same kind and update again replaces them."""
        await self.client.commit(
            operations.add_metrics.bind(run=self.run, update=update, metrics=metrics, kind=kind, epoch=self.epoch)
        )

    async def collect(self, policy: RetentionPolicy) -> Collected:
        """Apply a retention policy to the run, and delete content that nothing refers to. Raises StoreError."""
        return await asyncio.to_thread(collect, self._database, policy, run=self.run)

    # Versions

    async def add_version(self, update: int, parent: int | None, weights_hash: str = "") -> int:
        """Record new weights and return their id. Raises StoreConflict."""
        return await self.client.commit(
            operations.add_version.bind(
                run=self.run, update=update, parent=parent, weights_hash=weights_hash, epoch=self.epoch
            )
        )

    async def set_checkpoint(self, version: int, path: str) -> None:
        """Record the path of a version's checkpoint in the folder of the run; it is written and synced."""
        await self.client.commit(
            operations.set_checkpoint.bind(run=self.run, version=version, path=path, epoch=self.epoch)
        )

    # Groups

    async def open_group(self, group: Group) -> None:
        """Store an open group and its task."""
        await self.client.commit(operations.open_group.bind(group=group, epoch=self.epoch))

    async def grow_group(self, group: str, size: int) -> None:
        """Raise the size of an open group, before members are added. Raises StoreConflict."""
        await self.client.commit(operations.grow_group.bind(group=group, size=size, epoch=self.epoch))

    async def close_group(self, group: str, state: GroupState, reason: str = "") -> None:
        """Close an open group, to be scored or as ready, filtered or failed. Raises StoreConflict."""
        await self.client.commit(operations.close_group.bind(group=group, state=state, reason=reason, epoch=self.epoch))

    async def score_group(
        self, group: str, number: int, state: GroupState, reason: str = "", rewards: Sequence[Rewards] = ()
    ) -> None:
        """Store the rewards of a closed group and move it to ``state``. Raises StoreConflict."""
        await self.client.commit(
            operations.score_group.bind(
                group=group, number=number, state=state, reason=reason, rewards=rewards, epoch=self.epoch
            )
        )
        if state is not GroupState.READY:
            self._recent.take([group], texts=False)

    async def cancel_trajectories(self, group: str, reason: str, status: Status = Status.CANCELLED) -> int:
        """End the running trajectories of a group with ``status``, and return how many those were."""
        tallies = await self._tallies(group=group)
        return await self.client.commit(
            operations.cancel_trajectories.bind(
                group=group, reason=reason, status=status, tallies=tallies, epoch=self.epoch
            )
        )

    async def abandon_group(self, group: str, reason: str) -> None:
        """Cancel the running trajectories of a group and close it as failed."""
        await self.cancel_trajectories(group, reason)
        await self.close_group(group, GroupState.FAILED, reason)

    async def members(self, group: str) -> list[Outcome]:
        """Return the status of the latest attempt of each member of a group."""
        return await asyncio.to_thread(read_retried, self._database, queries.members, group)

    async def load(self, groups: Sequence[str], *, texts: bool = False) -> list[Group]:
        """Return whole groups in the given order, with ``texts`` their observations. Raises NotFound, StepCorrupt."""
        loaded = await self._retried(lambda: queries.load_groups(self._database, groups, texts=texts))
        for one in loaded:
            self._recent.add(one, texts=texts)
        return loaded

    async def load_scored(self, groups: Sequence[str], *, texts: bool = False) -> list[ScoredGroup]:
        """Return scored groups with their shaped rewards, in the given order; ``texts`` as in ``load``.

        A group that this process loaded to score it is not read again. Raises NotFound, StepCorrupt.
        """
        known = self._recent.take(groups, texts=texts)
        return await self._retried(lambda: queries.load_scored(self._database, groups, texts=texts, known=known))

    def reader(
        self, *, texts: bool = False, encode: Callable[[ScoredGroup], ScoredGroup] = lambda scored: scored
    ) -> queries.RunReader:
        """Return blocking reads of this run, for other threads; ``texts`` and ``encode`` as in ``RunReader``."""
        return queries.RunReader(self.run, self._database, texts=texts, encode=encode)

    # Leases

    async def lease(self, count: int, timeout_s: float) -> list[str]:
        """Lease the ``count`` oldest ready groups to the learner for ``timeout_s``, and return their ids.

        Groups that the learner holds already count. Returns none if fewer than ``count`` are ready.
        """
        return await self.client.commit(
            operations.lease_groups.bind(
                run=self.run, owner=self._owner, count=count, timeout_s=timeout_s, epoch=self.epoch
            )
        )

    async def release(self) -> list[str]:
        """Give every group that the learner holds back to the queue, and return their ids."""
        return await self.client.commit(operations.release.bind(run=self.run, owner=self._owner, epoch=self.epoch))

    async def expire(self, groups: Sequence[str], reason: str) -> None:
        """Set leased groups to ``expired``, so that no update trains on them. Raises LeaseLost."""
        await self.client.commit(
            operations.expire_groups.bind(
                run=self.run, owner=self._owner, groups=groups, reason=reason, epoch=self.epoch
            )
        )

    async def acknowledge(
        self,
        groups: Sequence[str],
        *,
        update: int,
        parent: int,
        items: Sequence[BatchItem],
        metrics: Mapping[str, Any],
        reused: Sequence[str] = (),
        recipe: Mapping[str, Any] | None = None,
        weights_hash: str = "",
    ) -> int:
        """Consume leased groups and record the version that ``update`` made of ``parent``, in one transaction.

        ``reused``, ``recipe`` and ``weights_hash`` are as for ``operations.acknowledge``.

        Returns:
            The id of the new version.

        Raises:
            LeaseLost: the learner no longer holds one of ``groups``; nothing was consumed.
            StoreConflict: ``parent`` is not the newest surviving version, or the update is recorded with another batch.
        """
        return await self.client.commit(
            operations.acknowledge.bind(
                run=self.run,
                owner=self._owner,
                groups=groups,
                update=update,
                parent=parent,
                items=items,
                metrics=metrics,
                reused=reused,
                recipe=recipe,
                weights_hash=weights_hash,
                epoch=self.epoch,
            )
        )

    async def flush(self) -> None:
        """Wait until every submitted write is durable or has failed."""
        await self.client.flush()

    async def _tallies(self, run: str | None = None, group: str | None = None) -> Mapping[str, Tally]:
        """Return the tallies of running trajectories."""
        return await self._retried(lambda: queries.running_tallies(self._database, run=run, group=group))

    async def _retried(self, read: Callable[[], T]) -> T:
        return await asyncio.to_thread(retried, read, self._database.retry_s)


def finish_if_running(database: Database, run: str, status: str, error: str, epoch: int | None = None) -> None:
    """End a run that is still running in the store; for a process that ends without a ``RunStore``.

    Args:
        epoch: ``RunStore.epoch`` of this driver; None if it did not begin or resume the run.

    Raises:
        Fenced: another driver has taken over the run.
        NotFound: the run has no row yet.
        StoreUnavailable: the database did not answer.
    """
    with database.transaction() as tx:
        if lock_run(tx, run, epoch).status == "running":
            operations.finish_run(tx, run=run, status=status, error=error, epoch=epoch)
