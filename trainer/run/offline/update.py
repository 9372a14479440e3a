"""Train on the groups of another run: nothing is leased, and every group counts as reuse.

The other run sampled the tokens, with its own versions, and stored their behavior log-probabilities; the loss corrects
for the difference to the current policy. No staleness bound applies.
"""

from collections.abc import Mapping, Sequence

from ....records import PolicyVersion, ScoredGroup
from ...context import RunContext
from ...learner.backends.base import LearnerBackend
from ...learner.batch import Batch, assemble
from ...learner.staleness import UNKNOWN_VERSION_STALENESS
from ...learner.update import UpdateStep


class OfflineUpdateStep(UpdateStep):
    """Trains on one batch after another of the groups of another run."""

    def __init__(
        self,
        context: RunContext,
        learner: LearnerBackend,
        history: dict[int, PolicyVersion],
        behavior: Mapping[int, PolicyVersion],
    ) -> None:
        """``history`` holds the versions of this run by id, ``behavior`` those of ``versions``."""
        super().__init__(context, learner, history)
        self._behavior = behavior

    def _assemble(self, groups: Sequence[ScoredGroup], update: int) -> Batch:
        config = self._config
        return assemble(
            groups,
            self._behavior,
            update,
            UNKNOWN_VERSION_STALENESS - 1,
            advantage=config.advantage,
            filters=config.sample_filters,
            loss=config.loss,
            streams=self._filter_streams,
        )

    async def _expire(self, groups: Sequence[ScoredGroup], batch: Batch) -> None:
        """Set the reason if the batch has nothing to train on; the groups keep their states in the other run."""
        self.skip_reason = "" if batch.groups else "no token of a source that the loss accepts"
        self.skipped_by_buffer = False

    def _fresh(self, groups: Sequence[ScoredGroup]) -> set[str]:
        return set()
