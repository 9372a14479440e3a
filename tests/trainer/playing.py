"""The parts of a run in this process, over a real store: workers without Ray, a learner of a tiny model."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.tiny_model import new_model
from turnwise.records import Outcome, PolicyVersion
from turnwise.store.project import run_folder
from turnwise.tests.agents.players import Stage
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.context import RunContext
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.update import UpdateStep
from turnwise.trainer.rollout.dispatcher import Dispatcher
from turnwise.trainer.rollout.worker_pool import WorkerPool
from turnwise.trainer.telemetry.metrics import Metrics

FIRST = PolicyVersion("r", 0, None, 0)


@dataclass
class InProcess:
    """Plays groups in this process, as ``WorkerPool`` plays them on Ray actors."""

    runner: GroupRunner

    async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
        return await self.runner.play(assignment)

    async def cancel(self, timeout_s: float = 30.0) -> None:
        """Do nothing: the dispatcher has cancelled the episodes of this process."""


def run_context(
    stage: Stage, config: RunConfig, streams: Streams, algorithms: AlgorithmSet | None = None
) -> RunContext:
    """Return the context of run ``r``, which writes no metrics and reports nothing; by default with new components."""
    algorithms = algorithms or AlgorithmSet.of(config)
    folder = run_folder(stage.database, "r")
    metrics = cast(Metrics, None)
    return RunContext(config, algorithms, stage.database, stage.store(), folder, streams, metrics, lambda event: None)


def update_step(
    stage: Stage, config: RunConfig, streams: Streams, folder: Path, algorithms: AlgorithmSet | None = None
) -> UpdateStep:
    """Return the update step of run ``r``, with a new tiny model."""
    model = new_model(folder, ["a", "b", "c"], hidden=32, heads=2)
    context = run_context(stage, config, streams, algorithms)
    algorithms = context.algorithms
    learner = Learner(model, config.learner, algorithms.loss, algorithms.proximal, 1.0)
    return UpdateStep(context, learner, {0: FIRST})


def dispatcher(
    stage: Stage, config: RunConfig, streams: Streams, pool: object, algorithms: AlgorithmSet | None = None
) -> Dispatcher:
    """Return the rollout side of run ``r``; ``pool`` plays the groups."""
    return Dispatcher(run_context(stage, config, streams, algorithms), cast(WorkerPool, pool), 0, 0)
