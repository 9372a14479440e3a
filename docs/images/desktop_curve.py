"""Draw the success of several runs on desktops over the minutes of their training, next to this file.

python docs/images/desktop_curve.py STORE_URL...

Each store holds one run. A line is the success of the last ``WINDOW`` training episodes, those of groups that were
filtered out included; points are the evaluations on held-out tasks, with 95 % intervals.
"""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import select
from turnwise.records import COUNTED_STATUSES, Purpose, Status, is_success
from turnwise.store.database import open_database
from turnwise.store.schema import EVALUATION, metric, trajectory

TARGET = Path(__file__).with_suffix(".png")
WINDOW = 300
STATUSES = [status.value for status in COUNTED_STATUSES]
SHIFT_MIN = 0.06
"""Distance of the points of different runs, which would cover one another."""

LABELS = (("untrained", (0.2, 0.02)), ("after the format warm-up", (-0.15, 0.17)), ("trained", (7.35, 0.62)))
"""Texts of the points, and their places in minutes and success."""


def curve(url: str) -> tuple[list[float], list[float], dict[str, dict[str, Any]]]:
    """Return minutes since the first training episode, the success at each, and the evaluations by name."""
    with closing(open_database(url)) as database, database.read() as conn:
        training = (trajectory.c.purpose == Purpose.TRAIN.value) & trajectory.c.status.in_(STATUSES)
        ended = trajectory.c.ended_at
        rows = conn.execute(
            select(ended, trajectory.c.status, trajectory.c.success, trajectory.c.reward)
            .where(training)
            .order_by(ended)
        ).all()
        found = conn.execute(select(metric.c.data).where(metric.c.kind.startswith(EVALUATION))).scalars()
        evaluations = [json.loads(one) if isinstance(one, str) else one for one in found]
    minutes = [(one.ended_at - rows[0].ended_at).total_seconds() / 60 for one in rows]
    solved = [is_success(one.success, Status(one.status), one.reward) for one in rows]
    means = [sum(solved[end - WINDOW : end]) / WINDOW for end in range(WINDOW, len(solved) + 1)]
    return minutes[WINDOW - 1 :], means, {one["name"]: one for one in evaluations}


def main(urls: list[str]) -> None:
    """Draw the curve of the stores."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for seed, url in enumerate(urls):
        minutes, means, evaluations = curve(url)
        color = f"C{seed}"
        axes.plot(minutes, means, lw=1.4, color=color, label=f"seed {seed}")
        ends = {"untrained": 0.0, "warmup": 0.0, "after": minutes[-1]}
        for name, at in ends.items():
            one = evaluations[name]
            error = [[one["success"] - one["low"]], [one["high"] - one["success"]]]
            place = at + (seed - 1) * SHIFT_MIN
            axes.errorbar([place], [one["success"]], yerr=error, fmt="o", ms=5, capsize=3, color=color)
    for text, place in LABELS:
        axes.annotate(text, place, color="0.35")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("success")
    axes.set_title(f"TinyDesktop: the last {WINDOW} training episodes, and held-out tasks (points)")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.25)
    figure.savefig(TARGET, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
