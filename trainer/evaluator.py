"""Evaluation inside a run: the held-out tasks, played with the version the engines serve."""

import asyncio
from collections.abc import Callable
from time import monotonic

from ..records import GroupState, Horizon
from .cluster import Cluster
from .config import RunConfig
from .dispatch import Survivors, play_out
from .evaluation import EvalResult, groups_of, held_out, summarise
from .events import Evaluated, Event
from .metrics import Metrics, finite


class Evaluator:
    """Plays held-out tasks; keeps every result by name."""

    def __init__(
        self,
        run: str,
        config: RunConfig,
        horizon: Horizon,
        cluster: Cluster,
        members: Survivors,
        metrics: Metrics,
        tell: Callable[[Event], None],
    ) -> None:
        self._run = run
        self._config = config
        self._horizon = horizon
        self._cluster = cluster
        self._members = members
        self._metrics = metrics
        self._tell = tell
        self.results: dict[str, EvalResult] = {}

    async def evaluate(self, name: str, update: int) -> None:
        """Play the held-out tasks once each, and record the result as ``name`` at ``update``."""
        settings = self._config.evaluation
        if not settings.tasks:
            return
        began = monotonic()
        cluster, journal = self._cluster, self._cluster.journal
        tasks = held_out(self._config.environments, settings.tasks)
        groups = groups_of(self._run, f"{name.replace(' ', '-')}-v{cluster.version}", tasks, self._horizon)
        await asyncio.gather(*(journal.commit("open_group", group=group) for group in groups))
        deadline = self._config.rollout.group_deadline
        outcomes = await asyncio.gather(
            *(play_out(cluster.workers, journal, self._members, group, deadline) for group in groups)
        )
        closing = {"state": GroupState.FILTERED, "reason": "evaluation"}
        await asyncio.gather(*(journal.commit("close_group", group=group.id, **closing) for group in groups))
        played = [(group.task, one) for group, ended in zip(groups, outcomes, strict=True) for one in ended]
        result = summarise(name, self._run, self._config.environments, played, monotonic() - began)
        self.results[name] = result
        await journal.commit(
            "add_metrics", run=self._run, update=update, metrics=finite(result.json()), kind=f"evaluation {name}"
        )
        self._metrics.write("evaluation", update, result.json())
        self._tell(Evaluated(name, result.success, result.low, result.high, result.families, result.seconds))
