"""The newest runs of a store in Prometheus' text format, for alerts: `/metrics` of the viewer.

A metric is added in ``_values``. Times are Unix times, so that a query computes the age: ``time() - ...``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ....store import queries
from ....store.database import Database
from ....store.queries.run_details import DrivenRun, list_driven_runs
from ....store.queries.run_summaries import RunSummary
from ....store.queries.updates import Updates
from ....store.schema import PACE

RUNS_MAX = 50
"""Runs that are shown, the newest ones."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(database: Database) -> str:
    """Return the metrics of the newest runs. Raises StoreError."""
    runs = list_driven_runs(database, limit=RUNS_MAX)
    with database.read() as conn:
        summaries = queries.run_summaries(conn, [one.run for one in runs])
        found = [(one, dict(_values(conn, one, summaries[one.run.id]))) for one in runs]
    names = dict.fromkeys(name for _, values in found for name, value in values.items() if value is not None)
    lines = []
    for name in names:
        lines.append(f"# TYPE turnwise_run_{name} gauge")
        for one, values in found:
            if (value := values.get(name)) is not None:
                labels = {"run": one.run.id, "kind": one.run.kind}
                labels |= {"status": one.status} if name == "state" else {}
                lines.append(f"turnwise_run_{name}{{{_labels(labels)}}} {float(value):.17g}")
    return "\n".join([*lines, ""])


def _values(conn: Any, driven: DrivenRun, summary: RunSummary) -> Iterator[tuple[str, float | None]]:
    run, update = driven.run, summary.updates
    yield "state", 1
    yield "updates", update
    yield "success", summary.success
    yield "reward", summary.reward
    yield "staleness", summary.staleness
    yield "held_out_success", summary.held_out.rate.success if summary.held_out else None
    newest = Updates(update)
    times = queries.update_times(conn, run.id, newest)
    yield "last_update_timestamp_seconds", times.get(update, run.created_at).timestamp()
    yield "ended_timestamp_seconds", run.ended_at.timestamp() if run.ended_at else None
    for pace in queries.list_metrics(conn, run.id, PACE, newest):
        yield "trained_tokens_per_second", pace.get("tokens_per_s")
    yield "failed_episodes", sum(queries.failure_counts(conn, run.id).values())


def _labels(labels: Mapping[str, str]) -> str:
    """Return labels with the escapes of the format."""
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return ",".join(f'{name}="{value.translate(escaped)}"' for name, value in labels.items())
