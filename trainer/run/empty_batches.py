"""Count consecutive batches with nothing to train on, and end a run that does not get beyond them."""

from ...errors import TurnwiseError

MAX_STALE_BATCHES = 10
"""Consecutive batches without a fresh token within the staleness bound that end the run."""
MAX_LEFT_OUT_BATCHES = 100
"""Consecutive batches that end the run if the replay buffer left out all of their groups, as a group filter does."""


class EmptyBatches:
    """The batches with nothing to train on since the last update."""

    def __init__(self) -> None:
        self._stale = 0
        self._left_out = 0

    def reset(self) -> None:
        """Start again after an update."""
        self._stale = self._left_out = 0

    def add(self, reason: str, *, left_out: bool) -> None:
        """Count a batch that was skipped.

        Args:
            left_out: whether the replay buffer left out all of its groups.

        Raises:
            TurnwiseError: it was the last of ``MAX_STALE_BATCHES`` or ``MAX_LEFT_OUT_BATCHES``.
        """
        self._left_out += left_out
        self._stale += not left_out
        if self._left_out >= MAX_LEFT_OUT_BATCHES:
            raise TurnwiseError(
                f"{self._left_out} consecutive batches had nothing to train on; the last: {reason}; if the policy "
                "fails every task, choose easier tasks or a longer horizon; if it solves every task, choose harder "
                "tasks; or change `replay_buffer`"
            )
        if self._stale >= MAX_STALE_BATCHES:
            raise TurnwiseError(f"{self._stale} consecutive batches had nothing to train on; the last: {reason}")
