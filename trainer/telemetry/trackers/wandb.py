"""Weights & Biases. Its own variables choose the account, the project and the mode: `WANDB_PROJECT`, `WANDB_MODE`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .base import TrackedRun

PACKAGE = "wandb"
PROJECT = "turnwise"
"""The project without `WANDB_PROJECT`."""


class Wandb:
    """One run of Weights & Biases; a resumed run continues it. The axis of every chart is the update."""

    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        """Begin or continue the run."""
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.name,
            id=run.uid,
            dir=run.folder,
            config=dict(config),
            resume="allow",
        )
        self._run.define_metric("*", step_metric="at_update")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Log the numbers of one record, with the update as ``at_update``."""
        self._run.log({**metrics, "at_update": update})

    def finish(self, status: str) -> None:
        """End the run, and wait until everything is sent."""
        self._run.finish(exit_code=0 if status == "finished" else 1)
