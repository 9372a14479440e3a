"""Which tasks: a weighted mixture of environments, a fresh seed each time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from ....envs.tasks import make_task
from ....records import Task
from ..protocols import GroupOutcome
from ..registry import Extension

if TYPE_CHECKING:
    from ...config.schema import EnvironmentConfig

SEEDS = 2**31
"""Seeds are drawn below this."""


class Mixture(Extension):
    """Draw an environment by its weight, then a seed of its training split."""

    def propose(self, environments: Sequence[EnvironmentConfig], rng: Random) -> Task:
        """See ``protocols.TaskSampler``."""
        chosen = rng.choices(environments, [one.weight for one in environments])[0]
        return make_task(chosen.id, rng.randrange(SEEDS), "train", chosen.options)

    def update(self, closed: GroupOutcome) -> None:
        """The mixture does not learn."""
