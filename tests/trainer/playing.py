"""A run's parts in this process, over a real store: workers without Ray, a learner of a tiny model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.tiny_model import new_model
from turnwise.records import Group, Outcome, PolicyVersion
from turnwise.tests.agents.players import Stage
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner.local import Learner
from turnwise.trainer.learner.update import Learning
from turnwise.trainer.rollout.dispatcher import Dispatcher

FIRST = PolicyVersion("r", 0, None, 0)


@dataclass
class InProcess:
    """Plays groups in this process, as ``WorkerPool`` has them played by Ray actors."""

    runner: GroupRunner

    async def play(self, group: Group, todo: Sequence[tuple[int, int]], deadline: float) -> list[Outcome]:
        return await self.runner.play(group, todo)

    async def cancel(self, deadline: float = 30.0) -> None:
        """The dispatcher has cancelled what runs here."""


def learning(stage: Stage, config: RunConfig, streams: Streams, folder: Path) -> Learning:
    """The learning side of run ``r``, with a new tiny model."""
    model = new_model(folder, ["a", "b", "c"], hidden=32, heads=2)
    learner = Learner(model, config.learner, config.loss, config.proximal, 1.0)
    return Learning(config, config, learner, stage.store(), {0: FIRST}, streams)


def dispatcher(stage: Stage, config: RunConfig, streams: Streams, workers: object) -> Dispatcher:
    """The rollout side of run ``r``; ``workers`` play the groups."""
    return Dispatcher(
        config,
        config,
        workers,  # type: ignore[arg-type]
        stage.store(),
        streams,
        0,
    )
