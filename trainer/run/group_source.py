"""The source of the groups that a run trains on: played by its own policy, or those of another run in the store."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, nullcontext

from ...records import ScoredGroup
from ..learner.update import UpdateResult, UpdateStep


class GroupSource(ABC):
    """Supplies the training loop with groups, and receives its new versions. By default, nothing is played."""

    def __init__(self, step: UpdateStep) -> None:
        self.step = step
        """Trains on the groups of this source."""

    @abstractmethod
    async def next_batch(self, since: float) -> list[ScoredGroup] | None:
        """Return the groups of the next update; an empty list if the run is to stop, None if no batch is left.

        Args:
            since: when the wait began, on the monotonic clock.

        Raises:
            TurnwiseError: no further batch forms.
        """

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Supply groups inside the ``async with`` block."""
        return nullcontext()

    def updating(self) -> AbstractAsyncContextManager[None]:
        """Keep what reads the learner's weights away inside the ``async with`` block."""
        return nullcontext()

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Begin no group inside the ``async with`` block."""
        return nullcontext()

    async def publish(self, trained: UpdateResult) -> None:  # noqa: B027 - optional
        """Begin further groups with the new version, which ``RunState.version`` holds."""

    def count(self, trained: UpdateResult, seconds: float) -> None:  # noqa: B027 - optional
        """Add the metrics of the source to those of an update, which ended ``seconds`` after the one before."""

    def saved(self) -> None:  # noqa: B027 - optional
        """Begin what is due after a checkpoint."""

    async def restart(self) -> None:  # noqa: B027 - optional
        """Leave the time since the last update, which was not for training, out of the metrics."""

    async def refill(self) -> None:  # noqa: B027 - optional
        """Begin further groups after a batch."""
