"""Demonstrations: stored successes of an expert in every batch, for a loss that accepts the source ``expert``.

Source: ours.

The losses ``behavior_cloning`` and ``hpt`` train on them. ``turnwise eval --policy oracle --split train`` records
demonstrations. A batch has one group per demonstration, without an advantage; it is neither consumed nor expired.

The demonstrations of an environment are chosen once, at its first batch. A resumed run keeps them, whatever was
recorded since. A choice without a demonstration of the batch's environments, with their options, is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from ....envs.tasks import env_key
from ....errors import TurnwiseError
from ....records import SUCCESS_RETURN, ScoredGroup, Source
from ..groups import successes
from .base import ReplayBuffer

if TYPE_CHECKING:
    from ....store.queries import RunReader


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
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""
    limit: int = Field(1000, ge=1)
    """Demonstrations to draw from, per environment: the newest ones."""

    _chosen: dict[str, list[str]] = PrivateAttr(default_factory=dict)
    """The ids of the trajectories to draw from, by the id of their environment."""
    _loaded: dict[str, list[ScoredGroup]] = PrivateAttr(default_factory=dict)
    """Demonstrations by the id of their environment."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the fresh groups and random demonstrations.

        Raises:
            TurnwiseError: the store holds no demonstration of the environments of the batch.
        """
        environments = {env_key(one.group.task) for one in fresh}
        tasks = {one.group.task.id for one in fresh}
        ids = sorted({one.group.task.env_id for one in fresh})
        found = self._read(ids, environments, reader)
        if not found:
            self._forget(ids)
            found = self._read(ids, environments, reader)
        if not found:
            where = f"run `{self.run}`" if self.run else "the store"
            raise TurnwiseError(
                f"{where} has no demonstration of {' or '.join(sorted(environments))}: record some with "
                "`turnwise eval --policy oracle --split train`, with `--env` and the same `--option`s. Only a "
                "success counts: without a verdict of the environment, a return of at least "
                f"{self.min_return:g} (`min_return`)"
            )
        chosen = _drawn([one for one in found if one.group.task.id in tasks], self.count, stream)
        if self.match == "environment":
            others = [one for one in found if one.group.task.id not in tasks]
            chosen += _drawn(others, self.count - len(chosen), stream)
        return [*fresh, *chosen]

    def metrics(self) -> dict[str, float]:
        """Return the number of demonstrations to draw from."""
        return {"demonstrations": sum(len(groups) for groups in self._loaded.values())}

    def state_dict(self) -> dict[str, Any]:
        """Return the ids of the chosen demonstrations by environment."""
        return {name: list(ids) for name, ids in self._chosen.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the chosen demonstrations; the next batch loads them."""
        self._chosen = {name: list(ids) for name, ids in state.items()}
        self._loaded = {}

    def _read(self, ids: Sequence[str], environments: Collection[str], reader: RunReader) -> list[ScoredGroup]:
        """Return the demonstrations of ``environments``, which include options, among the environments ``ids``."""
        for name in sorted({*ids, *self._chosen}):
            self._load(name, reader)
        return [one for name in ids for one in self._loaded[name] if env_key(one.group.task) in environments]

    def _forget(self, ids: Sequence[str]) -> None:
        for name in ids:
            del self._chosen[name], self._loaded[name]

    def _load(self, environment: str, reader: RunReader) -> None:
        """Load the demonstrations of an environment, with any options; choose them at the first time."""
        if environment in self._loaded:
            return
        if environment not in self._chosen:
            ids = reader.demonstrations(
                limit=self.limit, min_return=self.min_return, run=self.run, environment=environment
            )
            self._chosen[environment] = ids
        stored = reader.load_demonstrations(self._chosen[environment])
        self._loaded[environment] = [one for one in stored if all(successes(one, self.min_return))]


def _drawn(groups: Sequence[ScoredGroup], count: int, stream: Random) -> list[ScoredGroup]:
    """Return ``count`` random groups without repetition, or all if there are fewer."""
    return stream.sample(groups, min(count, len(groups)))
