"""The draws of a finished run's task sampler, however often the run was killed and resumed.

* They are those of the uninterrupted run: numbered from 0 without a gap, each with the task of its number.
* Each has exactly one surviving group, or none if the end of the run interrupted it. Groups that a resume gave up, with
  the updates that were lost with the last checkpoint or because they were running, do not survive: their tasks are
  played again.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Row, select
from turnwise.records import GroupState
from turnwise.store.schema import rollout_group, run, task
from turnwise.tests.chaos.harness import reading
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.schema import RunConfig

RESUMED, ENDED = "its run was resumed", "the run ended while it was running"


@dataclass(frozen=True)
class Draws:
    """Counts of the draws of one run, and the rules that they break."""

    drawn: int
    replayed: int
    """Groups that a resume gave up and that were played again."""
    repeated: int
    """Groups that survive next to another group of the same task."""
    problems: tuple[str, ...]


def count_draws(folder: Path, config: RunConfig, resumed_at: datetime | None) -> Draws:
    """Count the draws of the finished run in ``folder``.

    Args:
        resumed_at: a time from the last resume to the first group after it; None if it is not known, as after the death
            of a learner. Lost draws that should have been played again are then not found.
    """
    columns = (rollout_group, task.c.id.label("task"))
    which = select(*columns).join(task).join(run).where(run.c.id == config.name, rollout_group.c.purpose == "train")
    with reading(folder) as conn:
        rows = conn.execute(which.order_by(rollout_group.c.no)).all()
    surviving = Counter(row.task for row in rows if survives(row))
    repeated = sum(count - 1 for count in surviving.values())
    of_draw: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        of_draw[row.draw].append(row)
    problems = [f"{repeated} tasks were repeated"] if repeated else []
    if sorted(of_draw) != list(range(len(of_draw))):
        problems.append(f"the draws have gaps: {sorted(of_draw)}")
    streams, task_sampler = Streams(config.seed), AlgorithmSet.of(config).task_sampler
    for draw, groups in sorted(of_draw.items()):
        wanted = task_sampler.propose(config.mixture, streams.of_draw("task_sampler", draw)).id
        if others := [row.id for row in groups if row.task != wanted]:
            problems.append(f"draw {draw}: {others} have another task than the uninterrupted run")
        if (alive := [row.id for row in groups if survives(row)])[1:]:
            problems.append(f"draw {draw} has several surviving groups: {alive}")
    if resumed_at is not None:
        problems += unplayed(of_draw, resumed_at)
    return Draws(len(of_draw), len(rows) - len(of_draw), repeated, tuple(problems))


def survives(row: Row) -> bool:
    """Return whether a group was trained on, waits to be, or ended for a reason that also holds without a kill."""
    return not row.abandoned and not (row.state == GroupState.FAILED and row.reason in (RESUMED, ENDED))


def unplayed(of_draw: dict[int, list[Row]], resumed_at: datetime) -> list[str]:
    """Return the draws without a surviving group that the run should have played again after its last resume.

    It plays lost draws in their order and before new ones, until it ends.
    """
    newest = {draw: groups[-1] for draw, groups in of_draw.items()}
    played = [draw for draw, row in newest.items() if row.created_at >= resumed_at]
    reached = max(played, default=-1)
    found = []
    for draw, groups in sorted(of_draw.items()):
        if any(survives(row) for row in groups):
            continue
        interrupted = draw in played and newest[draw].reason == ENDED
        if not interrupted and (draw in played or draw < reached):
            found.append(f"draw {draw} was lost and not played again: {newest[draw].id}, `{newest[draw].reason}`")
    return found
