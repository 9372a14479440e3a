"""The base classes of advantage estimators: over a batch, and over one group at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ....records import ScoredGroup
from ..component import Component
from ..groups import Credit


class AdvantageEstimator(Component, ABC):
    """Credit per turn or per token, from the groups of a whole batch.

    Derive from this class where an advantage depends on other groups, as with whitening over the batch; otherwise from
    ``GroupAdvantage``.
    """

    slot: ClassVar[str] = "advantage"
    default: ClassVar[str] = "grpo"

    @abstractmethod
    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return the advantages of each group, in the order of ``groups``. Called once per update, off the event loop.

        A group holds its scored members: their steps with ``state_key``, their messages with tokens, their status, and
        the shaped rewards.
        """


class GroupAdvantage(AdvantageEstimator, ABC):
    """Credit per turn or per token, from the members of one group."""

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return the advantages of each group, which do not depend on the other groups."""
        return [self.of_group(scored) for scored in groups]

    @abstractmethod
    def of_group(self, scored: ScoredGroup) -> Credit:
        """Return the advantages of the members of a group, in the order of ``scored.group.trajectories``."""
