"""The batches of an offline run: the scored groups of another run, each once, in the order of their scoring.

The components observe every group when it is read, under the number of its scoring in the other run. A checkpoint
stores the number after the last one (``AlgorithmSet.observed``), so a resumed run continues with the next group.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from ....errors import TurnwiseError
from ....records import ScoredGroup
from ....store import queries
from ....store.database import Database
from ....store.database_errors import retried
from ....store.errors import Pruned
from ....store.queries.rewards import RewardSet
from ....store.run_lock import run_folder
from ....store.run_store import RunStore
from ...config.schema import RunConfig
from ...context import RunContext
from ...rollout.scoring import MIN_SURVIVORS

TOKENIZER = "tokenizer.json"


class OfflineBatches:
    """Reads the groups of the run ``offline.run``."""

    def __init__(
        self, context: RunContext, groups: Sequence[tuple[int, str]], load: Callable[[str], ScoredGroup]
    ) -> None:
        """``groups`` are number and id of the groups to read, in order; ``load`` returns a group with its rewards."""
        self._context = context
        self._config = context.config
        self._left = deque(groups)
        self._load = load
        self.filtered = 0
        """Groups that were not trained on: too few members with rewards, rejected by a group filter, or pruned."""

    @classmethod
    async def open(cls, context: RunContext) -> Self:
        """Return the batches that follow the last observed group.

        Raises:
            TurnwiseError: the groups of the other run do not suit this run.
        """
        config, database = context.config, context.database
        source = await asyncio.to_thread(retried, lambda: offline_source(config, database))
        check_tokenizer(run_folder(database, source), context.folder, source)
        stored = await asyncio.to_thread(retried, lambda: _reward_set(config, database))
        texts = any(one.needs_texts for _, one in config.components())

        def load(group: str) -> ScoredGroup:
            return queries.load_scored(database, [group], texts=texts, rewards=stored)[0]

        other = RunStore(source, database, context.store.client)
        trained = await context.store.reused_groups()
        groups = [(number, one) for number, one in await other.scored_from(config.observed) if one not in trained]
        return cls(context, groups, lambda group: retried(lambda: load(group)))

    async def next_batch(self) -> list[ScoredGroup]:
        """Return the next ``rollout.groups_per_batch`` groups that pass the group filters; none if too few are left."""
        count = self._config.rollout.groups_per_batch
        batch: list[ScoredGroup] = []
        while len(batch) < count and self._left:
            number, name = self._left.popleft()
            scored, is_trained_on = await asyncio.to_thread(self._read, name)
            if scored is not None:
                self._config.observe(number, scored)
            if scored is not None and is_trained_on:
                batch.append(scored)
            else:
                self.filtered += 1
        return batch if len(batch) == count else []

    def _read(self, name: str) -> tuple[ScoredGroup | None, bool]:
        """Return a group, and whether it is trained on; None if retention removed its content."""
        try:
            scored = self._load(name)
        except Pruned:
            return None, False
        if len(scored.group.trajectories) < MIN_SURVIVORS:
            return scored, False
        return scored, not any(one.reject(scored) for one in self._config.group_filters)


def offline_source(config: RunConfig, database: Database) -> str:
    """Return the name of the run whose groups an offline run trains on.

    Raises:
        NotFound: the run or its reward set does not exist.
        TurnwiseError: the run has too few scored groups, or sampled at another temperature.
    """
    source = str(config.offline.run)
    with database.read() as conn:
        row = queries.run_row(conn, source)
        count = len(queries.scored_from(conn, source, 0))
    _reward_set(config, database)
    if count < config.rollout.groups_per_batch:
        raise TurnwiseError(
            f"`offline.run`: run `{source}` has {count} scored training groups, and a batch needs "
            f"`rollout.groups_per_batch` = {config.rollout.groups_per_batch}"
        )
    sampled_at = row["config"].get("rollout", {}).get("temperature", 1.0)
    if sampled_at != config.rollout.temperature:
        raise TurnwiseError(
            f"run `{source}` sampled at temperature {sampled_at:g}: set `rollout.temperature` to it, because the "
            "stored log-probabilities are compared with those of the learner at the same temperature"
        )
    return source


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


def _reward_set(config: RunConfig, database: Database) -> RewardSet | None:
    if config.offline.rewards is None:
        return None
    with database.read() as conn:
        return queries.reward_set(conn, str(config.offline.run), config.offline.rewards)
