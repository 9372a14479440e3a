"""trackio, the local tracker of Hugging Face. `TRACKIO_PROJECT` names the project, `TRACKIO_DIR` the folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .base import TrackedRun

PACKAGE = "trackio"
PROJECT = "turnwise"
"""The project without `TRACKIO_PROJECT`."""


class Trackio:
    """One run of trackio, which knows runs by their name alone; a resumed run continues it."""

    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        """Begin or continue the run."""
        import trackio

        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        self._run = trackio.init(project=project, name=run.uid, config=dict(config), resume="allow", embed=False)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Log the numbers of one record."""
        self._run.log(dict(metrics), step=update)

    def finish(self, status: str) -> None:
        """End the run, and wait until everything is stored."""
        self._run.finish()
