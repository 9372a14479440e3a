"""What a success of training runs cost: tokens and seconds of the whole run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, case, false, func, select

from ...records import Purpose
from ..schema import PACE, SUCCEEDED, among, metric, trajectory
from ..schema import run as run_table


@dataclass(frozen=True, slots=True)
class SuccessCost:
    """The sums of the surviving history of a training run. Warmup and evaluations do not count."""

    tokens: int
    """Tokens that all ended training episodes sampled, those of filtered, expired and failed groups included."""
    seconds: float
    """Seconds from update to update, of all updates."""
    successes: int
    """Training episodes that succeeded."""
    tokens_per_success: float | None
    """None without a success, and for policies without tokens."""
    seconds_per_success: float | None
    """None without a success, and without an update."""

    @classmethod
    def of(cls, tokens: int, seconds: float, successes: int) -> Self:
        """Return the cost of these sums."""
        per_success = (one / successes if one and successes else None for one in (tokens, seconds))
        return cls(tokens, seconds, successes, *per_success)


NO_COST = SuccessCost.of(0, 0.0, 0)


def success_costs(conn: Connection, runs: Iterable[str]) -> dict[str, SuccessCost]:
    """Return the cost of each of ``runs`` that has an ended training episode, by id. Two statements."""
    names = list(runs)
    sampled = (
        select(
            run_table.c.id,
            func.sum(trajectory.c.n_tokens).label("tokens"),
            func.count(case((SUCCEEDED, 1))).label("successes"),
        )
        .join(trajectory, trajectory.c.run_no == run_table.c.no)
        .where(trajectory.c.purpose == Purpose.TRAIN.value, trajectory.c.abandoned == false())
        .where(trajectory.c.ended_at.is_not(None))
        .group_by(run_table.c.no)
    )
    paced = (
        select(run_table.c.id, func.sum(metric.c.data["update_seconds"].as_float()).label("seconds"))
        .join(metric, metric.c.run_no == run_table.c.no)
        .where(metric.c.kind == PACE, metric.c.abandoned == false())
        .group_by(run_table.c.no)
    )
    seconds = {row.id: row.seconds for row in among(conn, paced, run_table.c.id, names)}
    return {
        row.id: SuccessCost.of(int(row.tokens), seconds.get(row.id) or 0.0, int(row.successes))
        for row in among(conn, sampled, run_table.c.id, names)
    }
