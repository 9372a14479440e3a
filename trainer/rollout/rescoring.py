"""Score stored trajectories again: another reward of finished episodes, many groups at a time.

The scores go into a reward set of the run; the rewards that the run was trained with stay as they are. Each group is
scored in its own thread with a timeout, and its scores are stored in one transaction. A call that was interrupted, or
in which a judge did not answer, is repeated: it scores only the trajectories that have no rewards in the set.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations, groupby
from math import nan
from statistics import correlation, fmean
from typing import Any

from ...base.process import event_loop
from ...records import SCORED_STATUSES
from ...store import queries
from ...store.database import Database
from ...store.errors import Pruned
from ...store.operations import Rewards, add_rewards, create_reward_set
from ...store.queries.rewards import Returns
from ...store.writing.client import StoreClient
from ...store.writing.commit_queue import CommitQueue
from ..algorithms.registry import component_name
from ..algorithms.rewards.base import RewardShaper
from .scoring import in_thread, shape

MAX_CONCURRENT_GROUPS = 16
"""Groups that are scored at the same time by default."""
GROUP_TIMEOUT_S = 300.0
"""Seconds that the scoring of one group may take by default."""

MIN_RANGE = 1e-9
"""Largest difference of returns that count as equal in the correlation."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the returns of a reward set agree with those of the run, over the trajectories that have both."""

    old_mean: float
    """Mean return in the run; NaN without a trajectory."""
    new_mean: float
    """Mean return in the reward set."""
    correlation: float
    """Pearson's correlation of the two returns; NaN if the old or the new ones are all equal."""
    agreement: float
    """Share of the pairs of one group with two different old and two different new returns that both returns order in
    the same way; NaN without such a pair."""
    pairs: int
    """Number of these pairs."""


@dataclass(frozen=True, slots=True)
class ScoringReport:
    """The result of a scoring replay: counts of trajectories, and a comparison of the returns."""

    run: str
    name: str
    """Name of the reward set."""
    reward: str
    trajectories: int
    """Trajectories of the run that can be scored."""
    scored: int
    """Of these, trajectories that got rewards now."""
    unscored: int
    """Trajectories that the reward could not score."""
    already: int
    """Trajectories that had rewards in the set before."""
    last_error: str
    """The reason why a trajectory has no rewards; empty if all have."""
    comparison: Comparison

    def json(self) -> dict[str, Any]:
        """Return the report as one flat table."""
        return {
            **{name: value for name, value in asdict(self).items() if name != "comparison"},
            **asdict(self.comparison),
        }


@dataclass(slots=True)
class _Tally:
    scored: int = 0
    unscored: int = 0
    last_error: str = ""

    def add(self, scores: Sequence[Rewards]) -> None:
        missing = [score for score in scores if score.rewards is None]
        self.scored += len(scores) - len(missing)
        self.unscored += len(missing)
        for one in missing:
            self.last_error = next((str(verdict["error"]) for verdict in one.verdicts if "error" in verdict), "")


def score_stored(
    database: Database,
    run: str,
    name: str,
    reward: RewardShaper,
    *,
    max_concurrent_groups: int = MAX_CONCURRENT_GROUPS,
    timeout_s: float = GROUP_TIMEOUT_S,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ScoringReport:
    """Score the trajectories of a run that have no rewards in its reward set ``name``, and compare the returns.

    Args:
        timeout_s: seconds for one group; its members without rewards then have no score.
        on_progress: receives the number of groups done and their total after each group.

    Raises:
        NotFound: the run is not in the store.
        StoreConflict: the set has the scores of another reward, or of other options.
        TurnwiseError: the reward raised, or returned rewards of another shape.
        StepCorrupt: stored content was altered.
    """
    options = reward.model_dump(mode="json", exclude={*reward.operational})
    component = options.pop("name")
    with database.transaction() as tx:
        set_no = create_reward_set(tx, run=run, name=name, component=component, options=options)
    with database.read() as conn:
        waiting = queries.not_in_set(conn, run, set_no)
        total = queries.scorable(conn, run)
    score = partial(_scores, database, reward, timeout_s)
    tally = event_loop.run(_rescore(database, waiting, score, set_no, max_concurrent_groups, on_progress))
    with database.read() as conn:
        returns = queries.returns_in(conn, set_no)
    return ScoringReport(
        run=run,
        name=name,
        reward=component_name(type(reward)),
        trajectories=total,
        scored=tally.scored,
        unscored=tally.unscored,
        already=total - sum(len(members) for _, members in waiting),
        last_error=tally.last_error,
        comparison=compare(returns),
    )


def compare(returns: Sequence[Returns]) -> Comparison:
    """Compare the old and new returns of trajectories, which are in the order of their groups."""
    old, new = [one.old for one in returns], [one.new for one in returns]
    varies = all(values and max(values) - min(values) > MIN_RANGE for values in (old, new))
    same = [
        (one.old < other.old) == (one.new < other.new)
        for _, members in groupby(returns, key=lambda one: one.group)
        for one, other in combinations(members, 2)
        if one.old != other.old and one.new != other.new
    ]
    return Comparison(
        old_mean=fmean(old) if old else nan,
        new_mean=fmean(new) if new else nan,
        correlation=correlation(old, new) if varies else nan,
        agreement=fmean(same) if same else nan,
        pairs=len(same),
    )


async def _rescore(
    database: Database,
    groups: Sequence[tuple[str, list[str]]],
    score: Callable[[str, Collection[str]], Awaitable[list[Rewards]]],
    set_no: int,
    count: int,
    on_progress: Callable[[int, int], None],
) -> _Tally:
    """Score ``groups`` with their members to score, ``count`` at a time. Returns when all scores are stored."""
    writer = CommitQueue(database)
    client = StoreClient(writer.run)
    tally, done, waiting = _Tally(), iter(range(1, len(groups) + 1)), iter(groups)

    async def work() -> None:
        for group, members in waiting:
            scores = await score(group, set(members))
            await client.commit(add_rewards.bind(reward_set=set_no, rewards=scores))
            tally.add(scores)
            on_progress(next(done), len(groups))

    try:
        await asyncio.gather(*(work() for _ in range(min(count, len(groups)))))
    finally:
        await asyncio.to_thread(writer.close)
    return tally


async def _scores(
    database: Database, reward: RewardShaper, timeout_s: float, name: str, members: Collection[str]
) -> list[Rewards]:
    """Return the scores of ``members`` of a group."""
    try:
        (group,) = await asyncio.to_thread(queries.load_groups, database, [name], texts=reward.needs_texts)
    except Pruned as error:
        return [Rewards(member, None, [{"error": str(error)}]) for member in members]
    finished = [trajectory for trajectory in group.trajectories if trajectory.status in SCORED_STATUSES]
    passed = [one for one in finished if one.id in members] if reward.independent else finished

    def shaped() -> list[Rewards]:
        with reward.calling("__call__"):
            return shape(replace(group, trajectories=tuple(passed)), [reward])[1]

    try:
        async with asyncio.timeout(timeout_s):
            scores = await in_thread(shaped)
    except TimeoutError:
        reason = f"`{component_name(type(reward))}` took longer than {timeout_s:g} s"
        scores = [Rewards(one.id, None, [{"error": reason}]) for one in passed]
    return [score for score in scores if score.trajectory in members]
