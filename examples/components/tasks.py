"""Draw each task less often the more often its groups succeeded as a whole."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pydantic import Field, PrivateAttr
from turnwise.records import ScoredGroup, Task
from turnwise.trainer.algorithms.groups import counted_successes
from turnwise.trainer.algorithms.task_samplers.base import TaskSampler, WeightedEnvironment


class Unsolved(TaskSampler):
    """Of a few random tasks, take the one that was solved least often."""

    candidates: int = Field(4, ge=1)
    """Tasks drawn per proposal, of which one is taken."""

    _solved: Counter[str] = PrivateAttr(default_factory=Counter)

    def propose(self, environments: Sequence[WeightedEnvironment], rng: Random) -> Task:
        """Return the next task."""
        chosen = rng.choices(environments, [one.weight for one in environments])[0]
        return min((chosen.draw(rng) for _ in range(self.candidates)), key=lambda task: self._solved[task.id])

    def observe(self, scored: ScoredGroup) -> None:
        """Count the group if all of its members succeeded."""
        found = counted_successes(scored)
        self._solved[scored.group.task.id] += bool(found) and all(found)

    def metrics(self) -> dict[str, float]:
        """Return the number of tasks that were solved."""
        return {"solved": sum(count > 0 for count in self._solved.values())}

    def state_dict(self) -> dict[str, Any]:
        """Return the counts by task."""
        return dict(self._solved)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the counts."""
        self._solved = Counter(state)
