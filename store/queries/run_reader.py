"""The blocking reads of one run, for a replay buffer, which is called outside the event loop."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from ...records import SUCCESS_RETURN, GroupState, GroupSummary, ScoredGroup, Trajectory
from ..database import Database
from ..database_errors import retried
from .reuse import (
    REUSABLE_STATES,
    group_summaries,
    groups_of,
    newest_demonstrations,
    newest_successes,
    surviving_groups,
    surviving_trajectories,
)
from .rewards import load_scored, load_scored_trajectories

P = ParamSpec("P")
T = TypeVar("T")


class RunReader:
    """Reads the surviving history of one run: without the trajectories that a version sampled which a resume abandoned.

    A read is retried while the database is locked or away.
    """

    def __init__(
        self,
        run: str,
        database: Database,
        *,
        texts: bool = False,
        encode: Callable[[ScoredGroup], ScoredGroup] = lambda scored: scored,
    ) -> None:
        """With ``texts``, loaded steps have their observation texts; ``encode`` adds tokens to demonstrations."""
        self._run = run
        self._database = database
        self._texts = texts
        self._encode = encode

    def groups(
        self,
        *,
        limit: int,
        task: str | None = None,
        states: Collection[GroupState] = REUSABLE_STATES,
        min_update: int | None = None,
    ) -> list[GroupSummary]:
        """Return at most ``limit`` scored training groups of the run, newest first, without their trajectories.

        Args:
            task: only groups of the task with this id.
            states: only groups in these states; by default ready, filtered, leased, consumed and expired.
            min_update: only groups that this update or a later one consumed.
        """
        return self.read(group_summaries, self._run, limit=limit, task_id=task, states=states, min_update=min_update)

    def successes(self, task: str, *, min_return: float, limit: int) -> list[str]:
        """Return the ids of the newest trajectories of a task that succeeded; without a verdict of the environment,
        their shaped return is at least ``min_return``."""
        return self.read(newest_successes, self._run, task, min_return, limit)

    def demonstrations(
        self,
        *,
        limit: int,
        min_return: float = SUCCESS_RETURN,
        run: str | None = None,
        environment: str | None = None,
        task: str | None = None,
    ) -> list[str]:
        """Return the ids of the newest completed and successful trajectories of source ``expert``, on tasks of the
        training split.

        Args:
            min_return: return of the environment from which an episode without a verdict is a success.
            run: only trajectories of this run; by default, of any run in the store.
            environment: only trajectories of the environment with this id.
            task: only trajectories of the task with this id.
        """
        return self.read(
            newest_demonstrations, limit=limit, min_return=min_return, run=run, env_id=environment, task_id=task
        )

    def load_demonstrations(self, trajectories: Sequence[str]) -> list[ScoredGroup]:
        """Return the groups of these trajectories with no other members, encoded; groups without a member are left out.

        Raises:
            StepCorrupt: stored content was altered.
            TurnwiseError: a trajectory cannot be encoded.
        """
        groups = self.read(groups_of, trajectories)
        stored = retried(lambda: load_scored(self._database, groups, texts=True))
        wanted = set(trajectories)
        encoded = [self._encode(_with_members(one, wanted)) for one in stored]
        return [one for one in encoded if one.group.trajectories]

    def load(self, groups: Sequence[str]) -> list[ScoredGroup]:
        """Return groups with tokens and shaped rewards, in the given order.

        Groups that a resume abandoned, and those of other runs, are left out.

        Raises:
            StepCorrupt: stored content was altered.
        """
        known = self.read(surviving_groups, self._run, groups)
        return retried(lambda: load_scored(self._database, known, texts=self._texts))

    def load_trajectories(self, trajectories: Sequence[str]) -> list[tuple[Trajectory, Sequence[float]]]:
        """Return trajectories with tokens, each with its shaped rewards per turn, in the given order.

        Trajectories that a resume abandoned, and those of other runs, are left out.

        Raises:
            StepCorrupt: stored content was altered.
        """
        known = self.read(surviving_trajectories, self._run, trajectories)
        return retried(lambda: load_scored_trajectories(self._database, known, texts=self._texts))

    def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a query."""

        def once() -> T:
            with self._database.read() as conn:
                return query(conn, *args, **kwargs)

        return retried(once)


def _with_members(scored: ScoredGroup, names: Collection[str]) -> ScoredGroup:
    """Return the group with those members only whose ids are among ``names``."""
    kept = [
        (one, turns) for one, turns in zip(scored.group.trajectories, scored.rewards, strict=True) if one.id in names
    ]
    members = tuple(one for one, _ in kept)
    return replace(scored, group=replace(scored.group, trajectories=members), rewards=[turns for _, turns in kept])
