"""Rewards by a function of one trajectory, such as a stricter test of the result, in place of the environment's.

Source: ours.

The function gets the task and the trajectory, with the texts of its turns, and returns one of these:

* a number, or True (1) or False (0): the reward of the last turn; the other turns get 0
* a sequence with one number per turn
* None: no score

A function that raises scores nothing either: the trajectory is left out of its group like a failed one. The error is
stored with the trajectory. A function that leases sandboxes and raises one of their errors is called once more, because
something outside may have ended the sandbox. If the agent's commands cause the errors of both calls (they break the
sandbox, remove a file that the function reads, or close a stream), every turn gets 0: that is an outcome, as in a step
of an environment.
"""

from collections.abc import Callable, Sequence
from inspect import isclass
from typing import ClassVar, Self

from pydantic import PrivateAttr, model_validator

from ....base.process.user_code import imported
from ....envs.sandboxes import OUTCOMES, in_another_sandbox_if_lost
from ....records import Group, Task, Trajectory
from ..groups import PerTurn, Shaped
from .base import RewardShaper

Check = Callable[[Task, Trajectory], float | Sequence[float] | None]


class Checker(RewardShaper):
    """Replace the rewards with those of a function of the task and the trajectory."""

    needs_texts: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    function: str
    """The function, as `pkg.module:function`."""
    _check: Check = PrivateAttr()

    @model_validator(mode="after")
    def _import(self) -> Self:
        found = imported(self.function)
        if not callable(found) or isclass(found):
            raise ValueError(f"`{self.function}` is not a function")
        self._check = found
        return self

    def __call__(self, group: Group, rewards: PerTurn) -> list[Shaped]:
        """Return the rewards of the function for each trajectory."""
        return [self._scored(group.task, trajectory) for trajectory in group.trajectories]

    def _scored(self, task: Task, trajectory: Trajectory) -> Shaped:
        try:
            return in_another_sandbox_if_lost(lambda: self._answer(task, trajectory))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the function is a user's; its error is stored
            rewards = [0.0] * len(trajectory.steps) if isinstance(error, OUTCOMES) else None
            return Shaped(rewards, {"error": f"`{self.function}` raised {type(error).__name__}: {error}"})

    def _answer(self, task: Task, trajectory: Trajectory) -> Shaped:
        answer = self._check(task, trajectory)
        if answer is None:
            return Shaped(None, {"error": f"`{self.function}` returned no score"})
        if isinstance(answer, Sequence):
            return Shaped([float(value) for value in answer])
        return Shaped([*[0.0] * (len(trajectory.steps) - 1), float(answer)] if trajectory.steps else [])
