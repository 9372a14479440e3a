"""The learning curves of runs as one picture: success and reward over updates, from the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from ...store import queries
from ...store.queries.run_summaries import HeldOut
from ..telemetry.events import REWARD_PART

PARTS_MAX = 8
"""Parts of the reward that a picture of one run has lines of."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The numbers of a run's curve."""

    run: str
    updates: Sequence[Mapping[str, Any]]
    """The metrics of each surviving update, in order."""
    evaluations: Sequence[HeldOut]


def load_curves(conn: Connection, runs: Sequence[str]) -> list[Curve]:
    """Return the curve of each of ``runs``."""
    evaluations = queries.evaluations(conn, runs)
    return [Curve(run, queries.batch_metrics(conn, run), evaluations.get(run, [])) for run in runs]


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Write a picture; the suffix of ``path`` names its format. One run also has its horizon and its reward parts.

    Raises:
        OSError: the file cannot be written.
        ValueError: matplotlib writes no such format.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (success, reward) = plt.subplots(2, 1, figsize=(8, 7), layout="constrained", sharex=True)
    try:
        for number, curve in enumerate(curves):
            _draw_run(success, reward, curve, f"C{number}", curve.run if len(curves) > 1 else "training batches")
        if len(curves) == 1:
            _draw_horizon(success, curves[0])
            _draw_parts(reward, curves[0])
            figure.suptitle(curves[0].run)
        success.set_ylim(-0.02, 1.02)
        success.set_ylabel("success")
        reward.set_ylabel("mean return")
        reward.set_xlabel("update")
        for axes in (success, reward):
            if axes.get_legend_handles_labels()[0]:
                axes.legend(loc="best")
        figure.savefig(path, dpi=120)
    finally:
        plt.close(figure)


def _line(axes: Any, curve: Curve, name: str, color: str, label: str) -> None:
    known = [(one["update"], one[name]) for one in curve.updates if one.get(name) is not None]
    axes.plot([at for at, _ in known], [value for _, value in known], lw=1.2, color=color, label=label)


def _draw_run(success: Any, reward: Any, curve: Curve, color: str, label: str) -> None:
    _line(success, curve, "success", color, label)
    _line(reward, curve, "reward", color, label)
    held_out = [(max(one.update, 0), one.rate) for one in curve.evaluations if one.rate.tasks]
    points = [(at, one.success, one.success - one.low, one.high - one.success) for at, one in held_out]
    if points:
        at, rates, below, above = zip(*points, strict=True)
        name = "held out, 95 % interval" if label == "training batches" else f"{label}, held out"
        success.errorbar(at, rates, yerr=[below, above], fmt="o", capsize=4, color=color, label=name)
    sampled = [(at, one.pass_at) for at, one in held_out if one.pass_at]
    if k := max(set[str]().union(*(by_k for _, by_k in sampled)), key=int, default=""):
        points_k = [(at, by_k[k]) for at, by_k in sampled if k in by_k]
        success.plot(*zip(*points_k, strict=True), "^", color=color, label=f"{label}, pass@{k}")


def _draw_horizon(axes: Any, curve: Curve) -> None:
    known = [(one["update"], one["horizon_turns"]) for one in curve.updates if "horizon_turns" in one]
    turns = axes.twinx()
    turns.step([at for at, _ in known], [value for _, value in known], lw=0.8, color="0.6", where="post")
    turns.set_ylabel("horizon (turns)", color="0.5")
    turns.set_ylim(bottom=0)
    axes.set_zorder(turns.get_zorder() + 1)
    axes.patch.set_visible(False)


def _draw_parts(axes: Any, curve: Curve) -> None:
    names = sorted({name for one in curve.updates for name in one if name.startswith(REWARD_PART)})
    for number, name in enumerate(names[:PARTS_MAX]):
        # An underscore would hide the label, and a dollar sign would begin a formula.
        label = "part " + name.removeprefix(REWARD_PART).replace("$", "")
        _line(axes, curve, name, f"C{number + 1}", label)
