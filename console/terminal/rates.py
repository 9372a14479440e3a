"""Success rates in words and as a table: the same for an evaluation that ends and for one in the store."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from ...base.rates import Rate
from .output import echo
from .tables import print_table

if TYPE_CHECKING:
    from ...trainer.telemetry.events import EvalResult


def interval(mean: float | None, low: float | None, high: float | None, form: str = ".1%") -> str:
    """Return ``53.0% [46.1%, 59.8%]``, without the interval if it is not known; empty without a finite mean."""
    if mean is None or not isfinite(mean):
        return ""
    return f"{mean:{form}}" + ("" if low is None or high is None else f" [{low:{form}}, {high:{form}}]")


def largest(by_k: Mapping[str, float], name: str = "pass@", form: str = ".1%") -> str:
    """Return ``pass@4 80.0%`` for the largest k; empty for one sample per task."""
    k = max(by_k, key=int, default="")
    return f"{name}{k} {by_k[k]:{form}}" if k else ""


def rate_fields(rate: "Rate | EvalResult", name: str = "success") -> dict[str, str]:
    """Return the success, as ``name``, and pass@k as fields for ``print_fields``, with the tasks of a k if not all."""
    by_k = {"pass@k": rate.pass_at, "pass^k": rate.pass_all}
    fewer = {k: f" ({tasks} tasks)" for k, tasks in rate.pass_tasks.items() if tasks < rate.tasks}
    listed = {
        at: ", ".join(f"k={k} {value:.1%}{fewer.get(k, '')}" for k, value in one.items()) for at, one in by_k.items()
    }
    return {name: f"{interval(rate.success, rate.low, rate.high)} (95% interval)", **listed}


def print_rates(runs: Mapping[str, Mapping[str, Rate]], form: str = ".1%") -> None:
    """Print the rates by environment of each run that has several environments, as a table below a blank line."""
    rows: list[Sequence[Any]] = [
        (
            *(run if len(runs) > 1 else "", label, rate.tasks, interval(rate.success, rate.low, rate.high, form)),
            *(largest(rate.pass_at, form=form), largest(rate.pass_all, "pass^", form)),
        )
        for run, rates in runs.items()
        if len(rates) > 1
        for label, rate in rates.items()
    ]
    if rows:
        echo("")
        print_table(("run", "environment", "tasks", "success, 95% interval", "pass@k", "pass^k"), rows, empty="")
