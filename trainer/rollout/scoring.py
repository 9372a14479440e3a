"""Score closed groups while rollouts and updates continue: shape their rewards, and decide which are trained on.

Failed members are left out before a shaper or filter reads the group, so they affect the others only by their absence.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, TypeVar

from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, Group, GroupState, ScoredGroup, Trajectory, failed_by_policy
from ...store.operations import Rewards
from ..algorithms.group_filters.base import GroupFilter
from ..algorithms.groups import PerTurn, Shaped
from ..algorithms.registry import component_name
from ..algorithms.rewards.base import RewardShaper
from ..context import RunContext
from ..failpoints import failpoint

MIN_SURVIVORS = 2
"""Scored members that a group needs for a comparison."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """The result of scoring a group."""

    scored: ScoredGroup
    rewards: Sequence[Rewards]
    """The scores to store: one per member that a shaper read; none in a run without shapers."""
    state: GroupState
    """``ready``, ``filtered`` or ``failed``."""
    reason: str
    """The reason that the group is not ready; empty if it is."""


def score(group: Group, shapers: Sequence[RewardShaper], filters: Sequence[GroupFilter]) -> Scoring:
    """Score a closed group with the last trajectory of each member.

    Raises:
        TurnwiseError: a shaper returned rewards of another shape, or a reward that is not finite.
    """
    finished = [trajectory for trajectory in group.trajectories if trajectory.status in SCORED_STATUSES]
    if len(finished) < MIN_SURVIVORS:
        scored, _ = shape(group, ())
        return Scoring(scored, (), GroupState.FAILED, _few_survivors(group, len(finished)))
    scored, scores = shape(group, shapers)
    if len(scored.group.trajectories) < MIN_SURVIVORS:
        return Scoring(scored, scores, GroupState.FAILED, _few_scores(scores))
    for group_filter in filters:
        if reason := group_filter.reject(scored):
            name = component_name(type(group_filter))
            return Scoring(scored, scores, GroupState.FILTERED, f"{name}: {reason}")
    return Scoring(scored, scores, GroupState.READY, "")


def unscored(group: Group, error: str) -> Scoring:
    """Return the scoring of a group that could not be scored because of ``error``: it fails, without a member."""
    finished = [trajectory for trajectory in group.trajectories if trajectory.status in SCORED_STATUSES]
    scores = [Rewards(one.id, None, [{"error": error}]) for one in finished]
    scored = ScoredGroup(replace(group, trajectories=()), (), len(finished), failed_by_policy(group.trajectories))
    return Scoring(scored, scores, GroupState.FAILED, error)


def shape(group: Group, shapers: Sequence[RewardShaper]) -> tuple[ScoredGroup, list[Rewards]]:
    """Apply the shapers in order to the environment's rewards of a closed group, without its failed members.

    Returns:
        The scored group, and the scores to store: none without shapers.

    Raises:
        TurnwiseError: a shaper returned rewards of another shape, or a reward that is not finite.
    """
    failed = failed_by_policy(group.trajectories)
    complete = group = replace(
        group, trajectories=[trajectory for trajectory in group.trajectories if trajectory.status in SCORED_STATUSES]
    )
    rewards: PerTurn = [[step.reward for step in trajectory.steps] for trajectory in group.trajectories]
    verdicts: dict[str, list[dict[str, Any]]] = {trajectory.id: [] for trajectory in group.trajectories}
    for shaper in shapers:
        kept: list[tuple[Trajectory, list[float]]] = []
        for one, answer in zip(group.trajectories, _checked(shaper, group, rewards), strict=True):
            if answer.verdict:
                verdicts[one.id].append({**answer.verdict, "reward": component_name(type(shaper))})
            if answer.rewards is not None:
                kept.append((one, answer.rewards))
        group = replace(group, trajectories=[one for one, _ in kept])
        rewards = [turns for _, turns in kept]
    shaped = {one.id: turns for one, turns in zip(group.trajectories, rewards, strict=True)}
    scores = (
        [
            Rewards(trajectory.id, shaped.get(trajectory.id), verdicts[trajectory.id])
            for trajectory in complete.trajectories
        ]
        if shapers
        else []
    )
    return ScoredGroup(group, rewards, len(complete.trajectories) - len(group.trajectories), failed), scores


def _checked(shaper: RewardShaper, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
    answers = shaper(group, [list(turns) for turns in rewards]) if rewards else []
    name = component_name(type(shaper))
    if len(answers) != len(rewards):
        raise TurnwiseError(
            f"the reward `{name}` returned {len(answers)} trajectories of group {group.id}, which has {len(rewards)}"
        )
    for one, before, answer in zip(group.trajectories, rewards, answers, strict=True):
        if answer.rewards is None:
            continue
        if len(answer.rewards) != len(before):
            raise TurnwiseError(
                f"the reward `{name}` returned {len(answer.rewards)} rewards for trajectory {one.id}, "
                f"which has {len(before)} turns"
            )
        try:
            finite = all(map(isfinite, answer.rewards))
        except OverflowError:  # an int that is larger than every float
            finite = False
        if not finite:
            raise TurnwiseError(f"the reward `{name}` returned a reward that is not finite for trajectory {one.id}")
    return answers


def _few_survivors(group: Group, count: int) -> str:
    errors = [
        f"{trajectory.status}: {trajectory.error}"
        for trajectory in group.trajectories
        if trajectory.status not in SCORED_STATUSES
    ]
    return f"{count} of {group.size} members survived; {errors[-1] if errors else ''}"


def _few_scores(scores: Sequence[Rewards]) -> str:
    missing = [one for one in scores if one.rewards is None]
    errors = [str(verdict["error"]) for one in missing for verdict in one.verdicts if "error" in verdict]
    kept = len(scores) - len(missing)
    return f"{kept} of {len(scores)} members got a score; {errors[-1] if errors else ''}".rstrip("; ")


T = TypeVar("T")

MAX_CONCURRENT_SCORINGS = 16
"""Groups that are shaped at the same time; further groups wait."""


class Scorer:
    """Scores the closed groups of one run.

    Each group is shaped and filtered in its own thread, because a judge may take seconds. The result is stored, and
    then passed to the components, one group after the other: the order of the stored numbers is the order in which the
    components observe the groups. No await lies between the commit and ``observe``, so a checkpoint holds both or
    neither.
    """

    def __init__(self, context: RunContext, first_number: int) -> None:
        """``first_number`` is above the number of every stored scoring of the run."""
        self._algorithms = context.algorithms
        self._store = context.store
        self._timeout_s = context.config.rollout.group_timeout_s
        self._next_number = first_number
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_SCORINGS)
        self._order = asyncio.Lock()

    async def score(self, group: str) -> Scoring:
        """Score a closed group, store the result and return it.

        A scoring that takes longer than ``rollout.group_timeout_s`` fails the group.

        Raises:
            TurnwiseError: a reward shaper is broken, or the store does not answer.
        """
        async with self._slots:
            scoring = await self._scoring(group)
        async with self._order:
            number, self._next_number = self._next_number, self._next_number + 1
            await self._store.score_group(group, number, scoring.state, scoring.reason, scoring.rewards)
            failpoint("group_scored")
            self._algorithms.observe(number, scoring.scored)
        return scoring

    async def _scoring(self, group: str) -> Scoring:
        algorithms = self._algorithms
        (loaded,) = await self._store.load([group], texts=algorithms.scoring_needs_texts)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await in_thread(lambda: score(loaded, algorithms.rewards, algorithms.group_filters))
        except TimeoutError:
            return unscored(loaded, f"the rewards took longer than `rollout.group_timeout_s` = {self._timeout_s:g} s")


async def in_thread(work: Callable[[], T]) -> T:
    """Return the result of ``work``, run in a new daemon thread.

    A cancelled caller leaves the thread behind, and the end of the process does not wait for it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as failure:  # noqa: BLE001 - the caller raises it
            error = failure
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:
            return  # The loop has ended; nobody waits.

    threading.Thread(target=run, name="scoring", daemon=True).start()
    return await future
