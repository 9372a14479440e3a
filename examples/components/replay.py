"""Train once more on the previous group of each task."""

from collections.abc import Sequence
from random import Random

from turnwise.records import GroupState, ScoredGroup
from turnwise.store.queries import RunReader
from turnwise.trainer.algorithms.replay.base import ReplayBuffer


class PreviousGroup(ReplayBuffer):
    """Add the previous group of every task, if its mean return was lower than `max_mean`."""

    max_mean: float = 0.5
    """Mean return from which a group is not reused."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the fresh groups and the reused ones."""
        chosen = []
        for task in dict.fromkeys(one.group.task.id for one in fresh):
            for one in reader.groups(task=task, states={GroupState.CONSUMED}, limit=1):
                if sum(one.returns) / len(one.returns) < self.max_mean:
                    chosen.append(one.id)
        return [*fresh, *reader.load(chosen)]
