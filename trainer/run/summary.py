"""What a run came to, read from the store: the last line of ``turnwise train --json``."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from time import monotonic
from typing import Any

from ...store import queries
from ...store.database import Database, without_password
from ..evaluation.heldout import EvalResult
from ..evaluation.intervals import newcombe
from ..telemetry import curve
from ..telemetry.metrics import finite

BEFORE = ("warmup", "untrained", "forked")
"""Evaluations of the policy that training begins with, the last one first."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run in one line."""

    run: str
    status: str
    success_untrained: float | None
    success_warmup: float | None
    success_after: float | None
    gain: float | None
    """Of success over the policy that training began with: warmed up, untrained, or another run's."""
    gain_low: float | None
    gain_high: float | None
    """Its 95 % interval."""
    updates: int
    trajectories: int
    wall_s: float
    max_staleness: int
    families_after: Mapping[str, float]
    stale_share: float
    """Share of the trained tokens at staleness 1 or more."""
    store: str
    folder: str

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def result(
    run: str,
    status: str,
    updates: int,
    evaluations: Mapping[str, EvalResult],
    database: Database,
    folder: Path,
    started: float,
) -> RunResult:
    """Sum a run up. ``started`` is on the monotonic clock."""
    with database.read() as conn:
        summed = queries.run_totals(conn, run)
        batches = queries.batch_metrics(conn, run)
    tokens: Counter[int] = Counter()
    for one in batches:
        tokens.update({int(age): count for age, count in one["staleness_tokens"].items()})
    after = evaluations.get("after")
    before = next((evaluations[name] for name in BEFORE if name in evaluations), None)
    gain, low, high = _gain(before, after)
    return RunResult(
        run=run,
        status=status,
        success_untrained=_rate(evaluations.get("untrained")),
        success_warmup=_rate(evaluations.get("warmup")),
        success_after=_rate(after),
        gain=gain,
        gain_low=low,
        gain_high=high,
        updates=updates,
        trajectories=summed.trajectories,
        wall_s=round(monotonic() - started, 1),
        max_staleness=summed.max_staleness,
        families_after=finite(after.families) if after else {},
        stale_share=round(1 - tokens[0] / tokens.total(), 4) if tokens else 0.0,
        store=without_password(database.url),
        folder=str(folder),
    )


def draw_curve(run: str, updates: int, evaluations: Mapping[str, EvalResult], database: Database, folder: Path) -> Path:
    """Write the learning curve into the run's folder."""
    with database.read() as conn:
        batches = queries.batch_metrics(conn, run)
    held = [{**finite(one.json()), "update": _placed(name, updates)} for name, one in evaluations.items()]
    path = folder / "learning_curve.png"
    curve.draw(batches, held, run, path)
    return path


def _placed(name: str, updates: int) -> int:
    if name in BEFORE:
        return 0
    return int(name.split()[1]) if name.startswith("update ") else updates


def _rate(one: EvalResult | None) -> float | None:
    return None if one is None or one.success != one.success else round(one.success, 4)


def _gain(before: EvalResult | None, after: EvalResult | None) -> tuple[float | None, ...]:
    """The difference in success with its interval; None where one of both is not known."""
    if before is None or after is None or isnan(before.success + after.success):
        return None, None, None
    interval = newcombe((before.success, before.low, before.high), (after.success, after.low, after.high))
    return tuple(round(one, 4) for one in (after.success - before.success, *interval))
