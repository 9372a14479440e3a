"""The source of the groups that a run trains on: played by its own policy, or those of another run in the store."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ...records import ScoredGroup
from ..context import RunContext
from ..learner.update import UpdateResult, UpdateStep
from .played_groups import PlayedGroups
from .preparation import RunParts
from .state import RunState
from .stored_groups import StoredGroups


class GroupSource(Protocol):
    """Supplies the training loop with groups, and receives its new versions."""

    step: UpdateStep
    """Trains on the groups of this source."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Supply groups inside the ``async with`` block."""

    async def next_batch(self, since: float) -> list[ScoredGroup] | None:
        """Return the groups of the next update; an empty list if the run is to stop, None if no batch is left.

        Args:
            since: when the wait began, on the monotonic clock.

        Raises:
            TurnwiseError: no further batch forms.
        """

    def updating(self) -> AbstractAsyncContextManager[None]:
        """Keep what reads the learner's weights away inside the ``async with`` block."""

    async def publish(self, trained: UpdateResult) -> None:
        """Use the new version from now on, which ``RunState.version`` holds."""

    def count(self, trained: UpdateResult, seconds: float) -> None:
        """Add the metrics of the source to those of an update, which ended ``seconds`` after the one before."""

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Begin no group inside the ``async with`` block."""

    def saved(self) -> None:
        """Begin what is due after a checkpoint."""

    async def restart(self) -> None:
        """Leave the time since the last update, which was not for training, out of the metrics."""

    async def refill(self) -> None:
        """Begin further groups after a batch."""


async def open_source(context: RunContext, state: RunState, parts: RunParts) -> GroupSource:
    """Return the source that the configuration names.

    Raises:
        TurnwiseError: the groups of the other run do not suit this run.
    """
    kind = PlayedGroups if context.config.offline.run is None else StoredGroups
    return await kind.open(context, state, parts)
