"""Summarize a run from the store: the last line of `turnwise train --json`, and the learning curve."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from time import monotonic
from typing import Any

from ...base.masking import without_secrets
from ...base.rates import newcombe
from ...records import GroupState
from ...store import queries
from ...store.queries.run_details import FilteredGroups
from ..context import RunContext
from ..telemetry.events import EvalResult
from ..telemetry.metrics import finite
from .curve import draw, load_curves

INITIAL_EVALUATIONS = ("warmup", "untrained", "forked")
"""Evaluations of the policy that training begins with; the first that exists is the baseline of the gain."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    run: str
    status: str
    success_untrained: float | None
    success_warmup: float | None
    success_after: float | None
    gain: float | None
    """Difference of success to the policy that training began with: warmed up, untrained, or another run's."""
    gain_low: float | None
    gain_high: float | None
    """95 % interval of ``gain``."""
    updates: int
    trajectories: int
    wall_s: float
    max_staleness: int | None
    """None for an offline run: the number of updates between the versions of two runs is not defined."""
    success_after_by_environment: Mapping[str, float | None]
    best_success: float | None
    """Highest success on held-out tasks of a checkpoint."""
    best_success_low: float | None
    best_success_high: float | None
    """95 % interval of ``best_success``."""
    best_update: int | None
    best_checkpoint: str
    """Folder of that checkpoint, which is kept; empty if none was evaluated."""
    stale_share: float | None
    """Share of the trained tokens with staleness 1 or more; None for an offline run."""
    idle_updates: int
    """Updates that trained on no token: their gradient was 0."""
    hint: str
    """A remedy, if most groups were played and not trained on because their returns are equal; empty otherwise."""
    store: str
    folder: str

    def json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return asdict(self)


def summarize(
    context: RunContext, updates: int, evaluations: Mapping[str, EvalResult], status: str, started: float
) -> RunResult:
    """Return the result of a run. ``started`` is on the monotonic clock."""
    with context.database.read() as conn:
        totals = queries.run_totals(conn, context.name)
        batches = queries.batch_metrics(conn, context.name)
        best = queries.best_checkpoint(conn, context.name)
        idle = queries.idle_updates(conn, context.name)
        hint = _hint(queries.filtered_groups(conn, context.name), queries.group_counts(conn, context.name))
    tokens_by_staleness: Counter[int] = Counter()
    for batch in batches:
        tokens_by_staleness.update({int(age): count for age, count in batch["tokens_by_staleness"].items()})
    tokens = tokens_by_staleness.total()
    after = evaluations.get("after")
    before = next((evaluations[name] for name in INITIAL_EVALUATIONS if name in evaluations), None)
    gain, low, high = _gain(before, after)
    is_offline = context.config.offline.run is not None
    return RunResult(
        run=context.name,
        status=status,
        success_untrained=_success(evaluations.get("untrained")),
        success_warmup=_success(evaluations.get("warmup")),
        success_after=_success(after),
        gain=gain,
        gain_low=low,
        gain_high=high,
        updates=updates,
        trajectories=totals.trajectories,
        wall_s=round(monotonic() - started, 1),
        max_staleness=None if is_offline else totals.max_staleness,
        success_after_by_environment=_by_environment(after),
        best_success=round(best.success, 4) if best else None,
        best_success_low=round(best.low, 4) if best else None,
        best_success_high=round(best.high, 4) if best else None,
        best_update=best.update if best else None,
        best_checkpoint=best.path if best else "",
        stale_share=None if is_offline else round(1 - tokens_by_staleness[0] / tokens, 4) if tokens else 0.0,
        idle_updates=idle,
        hint=hint,
        store=without_secrets(context.database.url),
        folder=str(context.folder),
    )


def draw_curve(context: RunContext) -> Path:
    """Write the learning curve into the run's folder and return its path."""
    with context.database.read() as conn:
        curves = load_curves(conn, [context.name])
    path = context.folder / "learning_curve.png"
    draw(curves, path)
    return path


def _hint(filtered: Sequence[FilteredGroups], groups: Mapping[GroupState, int]) -> str:
    """Return ``RunResult.hint``; group filters name their reason after a colon, or alone."""
    flat = [one for one in filtered if one.reason.endswith("all returns equal")]
    lost, total = sum(one.groups for one in flat), sum(groups.values())
    if 2 * lost <= total:
        return ""
    solved, unsolved = sum(one.solved for one in flat), sum(one.unsolved for one in flat)
    if 3 * solved > 2 * lost:
        advice = "the policy solves these tasks: end the run, or train on harder ones"
    elif 3 * unsolved > 2 * lost:
        advice = "try a longer `sft_warmup`, or easier tasks"
    else:
        advice = "try a larger `rollout.group_size`"
    return (
        f"{lost:,} of {total:,} groups were played and not trained on, because all their returns are equal ({solved:,} "
        f"all solved, {unsolved:,} all unsolved): {advice}"
    )


def _success(one: EvalResult | None) -> float | None:
    return None if one is None or isnan(one.success) else round(one.success, 4)


def _by_environment(one: EvalResult | None) -> dict[str, float | None]:
    return {name: finite(rate.success) for name, rate in one.by_environment.items()} if one else {}


def _gain(before: EvalResult | None, after: EvalResult | None) -> tuple[float | None, ...]:
    """Return the difference in success with its interval; None if either success is unknown, or if a resume changed
    how evaluations are played.
    """
    if before is None or after is None or isnan(before.success + after.success) or not before.is_comparable(after):
        return None, None, None
    interval = newcombe((before.success, before.low, before.high), (after.success, after.low, after.high))
    return tuple(round(one, 4) for one in (after.success - before.success, *interval))
