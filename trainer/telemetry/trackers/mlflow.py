"""MLflow. Its own variables choose the server and the experiment: `MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .base import TrackedRun

PACKAGE = "mlflow"
EXPERIMENT = "turnwise"
"""The experiment without `MLFLOW_EXPERIMENT_NAME` and `MLFLOW_EXPERIMENT_ID`."""
UID = "turnwise.uid"
"""The tag by which a resumed run finds its run of MLflow."""
MAX_PARAMS = 100
"""Parameters that a server takes at once."""
MAX_VALUE_CHARS = 500
REFUSED = re.compile(r"[^\w\-. :/]")
"""Characters that MLflow refuses in a name."""
STATUS = {"finished": "FINISHED", "stopped": "KILLED"}


class Mlflow:
    """One run of MLflow, with the configuration as parameters; a resumed run continues it."""

    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        """Begin or continue the run."""
        import mlflow

        if not {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"} & os.environ.keys():
            mlflow.set_experiment(EXPERIMENT)
        found = mlflow.search_runs(filter_string=f"tags.`{UID}` = '{run.uid}'", output_format="list")
        known = found[0].info.run_id if found else None
        mlflow.start_run(run_id=known, run_name=None if known else run.name, tags={UID: run.uid})
        if known is None:
            params = list(_flat(config))
            for start in range(0, len(params), MAX_PARAMS):
                mlflow.log_params(dict(params[start : start + MAX_PARAMS]))

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Log the numbers of one record."""
        import mlflow

        mlflow.log_metrics({REFUSED.sub("_", name): value for name, value in metrics.items()}, step=update)

    def finish(self, status: str) -> None:
        """End the run."""
        import mlflow

        mlflow.end_run(STATUS.get(status, "FAILED"))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield REFUSED.sub("_", f"{prefix}{key}"), str(value)[:MAX_VALUE_CHARS]
