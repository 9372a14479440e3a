"""One garbage collection: apply a retention policy, and delete the content that nothing refers to any more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import select

from ..database import Database
from ..schema import step, trajectory
from ..schema.types import utc_now
from . import Progress
from .garbage import Swept, sweep, sweep_rows
from .policy import RetentionPolicy
from .prune import Floor, Removed, candidates, delete_turns, floors, prune
from .search_index import drop_index
from .sizes import StoreSize, measure, vacuum

HIGH, LOW = 0.9, 0.75
"""Shares of ``max_size``: the size from which a collection prunes, and the bytes in use that it leaves."""

_CHUNK = 200


@dataclass(slots=True)
class Collected:
    """What a collection removed, or would remove."""

    before: StoreSize
    after: StoreSize
    pruned: int = 0
    """Trajectories that lost their content."""
    turns_deleted: int = 0
    """Pruned trajectories that lost their turns."""
    swept: Swept = field(default_factory=Swept)
    altered: list[str] = field(default_factory=list)
    """Ids of trajectories that differ from their seals, and stayed as they are."""
    is_over: bool = False
    """True if the store needs more than ``max_size`` for what the policy never removes. False for a dry run, which does
    not count the content of the trajectories that it would prune."""


def collect(
    database: Database,
    policy: RetentionPolicy,
    *,
    run: str | None = None,
    dry_run: bool = False,
    shrink: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> Collected:
    """Prune by age, then by size, then delete garbage, and return what was removed.

    Args:
        run: prune only trajectories of this run; None: of every training run.
        dry_run: change nothing. The content that only pruned trajectories refer to is not counted.
        shrink: give free pages back to the file system at the end; this rewrites the database, and its writers wait.

    Raises:
        StoreFull: ``shrink``, and the disk has no room for a second copy of the database.
    """
    size = measure(database)
    work = _Collection(database, policy, run, dry_run, progress, Collected(size, size))
    work.prune_by_age()
    if policy.max_size is not None and size.total > HIGH * policy.max_size:
        work.prune_by_size(policy.max_size)
    cut = utc_now() - timedelta(seconds=policy.grace_s)
    collected = work.collected
    collected.swept.add(sweep(database, cut, dry_run=dry_run, progress=lambda done: progress("content", done, 0)))
    if shrink and not dry_run:
        progress("vacuum", 0, 1)
        vacuum(database)
    collected.after = measure(database)
    if policy.max_size is not None and not dry_run:
        collected.is_over = collected.after.used > policy.max_size
    return collected


@dataclass(slots=True)
class _Collection:
    """The state of one collection."""

    database: Database
    policy: RetentionPolicy
    run: str | None
    dry_run: bool
    progress: Progress
    collected: Collected
    bytes: int = 0
    """Bytes of content that were removed from rows."""

    def prune_by_age(self) -> None:
        """Prune what the policy does not keep, whatever the size of the store."""
        if self.policy.keep_versions is None:
            return
        for floor in self._floors():
            for success in (False,) if self.policy.keep_successes else (False, True):
                for numbers in candidates(self.database, floor, success=success):
                    self._prune(floor, numbers)

    def prune_by_size(self, max_size: int) -> None:
        """Prune the oldest trajectories until ``LOW`` of ``max_size`` is in use, or nothing is left to prune.

        The search index goes first: a search builds it again.
        """
        if not self.dry_run and self._excess(max_size) > 0:
            drop_index(self.database)
        excess = self._excess(max_size)
        for success in (False, True):
            for floor in self._floors():
                for numbers in candidates(self.database, floor, success=success):
                    if excess <= 0 and (excess := self._excess(max_size)) <= 0:
                        return
                    excess -= self._prune(floor, numbers)
        for numbers in self._with_turns():
            if excess <= 0 and (excess := self._excess(max_size)) <= 0:
                return
            removed = delete_turns(self.database, numbers, dry_run=self.dry_run)
            self.collected.turns_deleted += removed.trajectories
            excess -= self._count(removed)

    def _floors(self) -> Sequence[Floor]:
        with self.database.read() as conn:
            return floors(conn, self.policy, self.run)

    def _prune(self, floor: Floor, numbers: Sequence[int]) -> int:
        """Prune trajectories and return the bytes that this freed."""
        interval = self.policy.screenshot_interval
        removed = prune(self.database, floor, numbers, screenshot_interval=interval, dry_run=self.dry_run)
        self.collected.pruned += removed.trajectories
        self.progress("trajectories", self.collected.pruned, 0)
        return self._count(removed)

    def _count(self, removed: Removed) -> int:
        """Delete the content that only the removed rows referred to, and return the bytes of both."""
        self.collected.altered += removed.altered
        cut = utc_now() - timedelta(seconds=self.policy.grace_s)
        swept = sweep_rows(self.database, removed.blobs, cut, dry_run=self.dry_run)
        if not self.dry_run:
            self.collected.swept.add(swept)
        self.bytes += removed.bytes
        return removed.bytes + swept.bytes

    def _excess(self, max_size: int) -> int:
        """Return the bytes in use above ``LOW`` of ``max_size``."""
        planned = self.bytes if self.dry_run else 0
        return int(measure(self.database).used - planned - LOW * max_size)

    def _with_turns(self) -> Iterator[list[int]]:
        """Yield the ``no`` of the pruned trajectories that have turns, oldest first."""
        has_turns = select(step.c.idx).where(step.c.trajectory_no == trajectory.c.no).exists()
        pruned = select(trajectory.c.no).where(trajectory.c.pruned_at.is_not(None), has_turns)
        after = 0
        while True:
            statement = pruned.where(trajectory.c.no > after).order_by(trajectory.c.no).limit(_CHUNK)
            with self.database.read() as conn:
                numbers = list(conn.execute(statement).scalars())
            if not numbers:
                return
            yield numbers
            after = numbers[-1]
