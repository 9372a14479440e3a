"""Demonstrations: stored episodes of an expert in every batch, for a loss that accepts the source ``expert``.

Source: ours.

The losses ``behavior_cloning`` and ``hpt`` train on them. ``turnwise eval --policy oracle --split train`` records
demonstrations. Each is a group of its own, without an advantage, and is neither consumed nor expired. The set of
demonstrations is read once, at the first batch.
"""

from collections.abc import Collection, Sequence
from random import Random
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from ....agents.rollout.group_runner import env_key
from ....errors import TurnwiseError
from ....records import ScoredGroup, Source
from .base import ReplayBuffer, StoreReader


class Demonstrations(ReplayBuffer):
    """Adds episodes of an expert to every batch, those of the batch's tasks first."""

    sources: ClassVar[Collection[Source]] = frozenset({Source.EXPERT})

    run: str | None = None
    """The run that recorded the demonstrations. By default, all of the store on the training split are used."""
    count: int = Field(16, ge=1)
    """Demonstrations per batch, at most."""
    match: Literal["environment", "task"] = "environment"
    """``task`` adds only demonstrations of the batch's tasks; ``environment`` fills up with others of its
    environments."""
    limit: int = Field(1000, ge=1)
    """Demonstrations to draw from, per environment: the newest ones."""

    _loaded: dict[str, list[ScoredGroup]] = PrivateAttr(default_factory=dict)
    """Demonstrations by the id of their environment."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: StoreReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the fresh groups and random demonstrations.

        Raises:
            TurnwiseError: the store holds no demonstration of the environments of the batch.
        """
        environments = {env_key(one.group.task) for one in fresh}
        tasks = {one.group.task.id for one in fresh}
        ids = sorted({one.group.task.env_id for one in fresh})
        found = [one for name in ids for one in self._of(name, reader) if env_key(one.group.task) in environments]
        if not found:
            where = f"run `{self.run}`" if self.run else "the store"
            raise TurnwiseError(
                f"{where} has no demonstration of {' or '.join(sorted(environments))}: record some with "
                "`turnwise eval --policy oracle --split train`, with `--env` and the same `--option`s"
            )
        chosen = _drawn([one for one in found if one.group.task.id in tasks], self.count, stream)
        if self.match == "environment":
            others = [one for one in found if one.group.task.id not in tasks]
            chosen += _drawn(others, self.count - len(chosen), stream)
        return [*fresh, *chosen]

    def metrics(self) -> dict[str, float]:
        """Return the number of demonstrations to draw from."""
        return {"demonstrations": sum(len(groups) for groups in self._loaded.values())}

    def _of(self, environment: str, reader: StoreReader) -> list[ScoredGroup]:
        """Return the successful demonstrations of an environment, with any options."""
        if environment not in self._loaded:
            ids = reader.demonstrations(limit=self.limit, run=self.run, environment=environment)
            self._loaded[environment] = [one for one in reader.load_demonstrations(ids) if _is_successful(one)]
        return self._loaded[environment]


def _is_successful(scored: ScoredGroup) -> bool:
    return all(one.success is not False for one in scored.group.trajectories)


def _drawn(groups: Sequence[ScoredGroup], count: int, stream: Random) -> list[ScoredGroup]:
    """Return ``count`` random groups without repetition, or all if there are fewer."""
    return stream.sample(groups, min(count, len(groups)))
