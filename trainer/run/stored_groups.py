"""The groups of another run, each once, in the order of their scoring. The other run stays as it is.

The components observe every group when it is read, under the number of its scoring in the other run. A checkpoint
stores the number after the last one (``AlgorithmSet.observed``), so a resumed run continues with the next group.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from ...errors import TurnwiseError
from ...records import PolicyVersion, ScoredGroup
from ...store import queries
from ...store.database_errors import retried
from ...store.errors import Pruned
from ...store.project import run_folder
from ...store.queries.rewards import RewardSet
from ...store.run_store import RunStore
from ..context import RunContext
from ..learner.provenance.sampling_versions import sampling_versions
from ..learner.update import UpdateStep
from ..rollout.scoring import MIN_SURVIVORS
from ..telemetry.events import Note
from .group_source import GroupSource
from .preparation import RunParts
from .state import RunState

TOKENIZER = "tokenizer.json"


class StoredGroups(GroupSource):
    """Reads the groups of the run ``offline.run``."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        step: UpdateStep,
        groups: Sequence[tuple[int, str]],
        load: Callable[[str], ScoredGroup],
    ) -> None:
        """``groups`` are number and id of the groups to read, in order; ``load`` returns a group with its rewards."""
        super().__init__(step)
        self._context = context
        self._state = state
        self._algorithms = context.algorithms
        self._left = deque(groups)
        self._load = load
        self._filtered = 0
        """Groups that were not trained on: too few members with rewards, rejected by a group filter, or pruned."""

    @classmethod
    async def open(cls, context: RunContext, state: RunState, parts: RunParts) -> Self:
        """Return the groups that follow the last observed one.

        Raises:
            TurnwiseError: the groups of the other run do not suit this run.
        """
        config, database = context.config, context.database
        source = str(config.offline.run)
        check_tokenizer(run_folder(database, source), context.folder, source)
        texts = context.algorithms.scoring_needs_texts

        def read() -> tuple[RewardSet | None, dict[int, PolicyVersion]]:
            with database.read() as conn:
                name = config.offline.rewards
                rewards = None if name is None else queries.reward_set(conn, source, name)
                return rewards, sampling_versions(conn, context.name)

        def load(group: str) -> ScoredGroup:
            return queries.load_scored(database, [group], texts=texts, rewards=rewards)[0]

        rewards, sampled_by = await asyncio.to_thread(retried, read, database.retry_s)
        other = RunStore(source, database, context.store.client)
        trained = await context.store.read(queries.reused_groups)
        numbered = await other.read(queries.scored_from, context.algorithms.observed)
        groups = [(number, one) for number, one in numbered if one not in trained]
        text = f"training on {len(groups)} stored groups of run {source}; success and reward of an update are theirs"
        context.report(Note(f"{text}, and `turnwise eval` measures the policy of this run"))
        history = {**await context.store.read(queries.versions), state.version.id: state.version}
        step = UpdateStep(context, parts.learner, history, sampled_by)
        return cls(context, state, step, groups, lambda group: retried(lambda: load(group), database.retry_s))

    async def next_batch(self, since: float) -> list[ScoredGroup] | None:
        """Return the next ``rollout.groups_per_batch`` groups that pass the group filters; None if too few are left."""
        count = self._context.config.rollout.groups_per_batch
        batch: list[ScoredGroup] = []
        while len(batch) < count and self._left:
            number, name = self._left.popleft()
            scored, is_trained_on = await asyncio.to_thread(self._read, name)
            if scored is not None:
                self._algorithms.observe(number, scored)
            if scored is not None and is_trained_on:
                batch.append(scored)
            else:
                self._filtered += 1
        if len(batch) == count:
            return batch
        text = (
            f"run {self._context.config.offline.run} has no further batch of {count} groups: training ends after "
            f"{self._state.version.update} updates; {self._filtered} groups were filtered"
        )
        self._context.report(Note(text))
        return None

    def _read(self, name: str) -> tuple[ScoredGroup | None, bool]:
        """Return a group, and whether it is trained on; None if retention removed its content."""
        try:
            scored = self._load(name)
        except Pruned:
            return None, False
        if len(scored.group.trajectories) < MIN_SURVIVORS:
            return scored, False
        return scored, not any(group_filter.reject(scored) for group_filter in self._algorithms.group_filters)


def check_tokenizer(source: Path, folder: Path, run: str) -> None:
    """Check that the folders of two runs have the same tokenizer, if both have one.

    Raises:
        TurnwiseError: the tokenizers differ: the stored token ids have another meaning.
    """
    ours, theirs = (one / "tokenizer" / TOKENIZER for one in (folder, source))
    if ours.exists() and theirs.exists() and ours.read_bytes() != theirs.read_bytes():
        raise TurnwiseError(
            f"the tokenizer of this run differs from that of run `{run}`, whose tokens it trains on: set `model.path` "
            f"to a model with the tokenizer in `{theirs.parent}`"
        )
