"""Draw the learning curve: success of the training batches and on held-out tasks over updates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw(
    updates: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]], title: str, path: Path
) -> None:
    """Write the learning curve as a PNG file.

    Args:
        updates: records with ``update``, ``success`` and ``horizon_turns``.
        evaluations: records with ``update``, ``name``, ``success``, ``low`` and ``high``.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    at = [one["update"] for one in updates if one["success"] is not None]
    axes.plot(at, [one["success"] for one in updates if one["success"] is not None], lw=1.2, label="training batches")
    for one in evaluations:
        if one["success"] is None:
            continue
        error = [[one["success"] - one["low"]], [one["high"] - one["success"]]]
        at_update = max(one["update"], 0)
        axes.errorbar([at_update], [one["success"]], yerr=error, fmt="o", capsize=4, label=f"held out, {one['name']}")
    turns = axes.twinx()
    turns.step(
        [one["update"] for one in updates], [one["horizon_turns"] for one in updates], lw=0.8, color="0.6", where="post"
    )
    turns.set_ylabel("horizon (turns)", color="0.5")
    turns.set_ylim(bottom=0)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("update")
    axes.set_ylabel("success")
    axes.set_title(title)
    axes.legend(loc="lower right")
    axes.set_zorder(turns.get_zorder() + 1)
    axes.patch.set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
