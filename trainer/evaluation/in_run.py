"""Evaluation inside a run: the held-out tasks, played with the version the engines serve."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from uuid import uuid4

from ...agents.rollout.group_runner import kind
from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, GroupState, Horizon, Outcome, Task
from ...store.run_store import RunStore
from ..cluster.actors import Cluster
from ..config.schema import RunConfig
from ..failpoints import failpoint
from ..rollout.dispatcher import play_out
from ..telemetry.events import Evaluated, Event, Note
from ..telemetry.metrics import Metrics, finite
from .heldout import EvalResult, groups_of, held_out, summarise

MAX_FAILED = 0.05
"""Share of the episodes that may fail before a rate over the others says nothing."""
PAUSES = (5.0, 15.0, 45.0, 135.0, 300.0, 600.0, 700.0)
"""Seconds before what failed is played again: half an hour in all, as ``rollout.circuit_breaker.OUTAGE_MAX_S``."""


class Evaluator:
    """Plays held-out tasks; keeps every result by name."""

    def __init__(
        self,
        config: RunConfig,
        horizon: Horizon,
        cluster: Cluster,
        store: RunStore,
        metrics: Metrics,
        tell: Callable[[Event], None],
    ) -> None:
        self._config = config
        self._horizon = horizon
        self._cluster = cluster
        self._store = store
        self._metrics = metrics
        self._tell = tell
        self._worked: set[str] = set()
        """The kinds of environments that were seen to work."""
        self.results: dict[str, EvalResult] = {}

    async def evaluate(self, name: str, update: int) -> None:
        """Play the held-out tasks once each, and record the result as ``name`` at ``update``."""
        settings = self._config.evaluation
        if not settings.tasks:
            return
        failpoint("evaluating")
        began = monotonic()
        tasks = held_out(self._config.environments, settings.tasks)
        played = await self._play(name, tasks)
        # Worlds that worked before and now fail are waited for; what was never seen to work is told at once.
        for pause in PAUSES:
            ended = [(task, one) for task, one in played if one.status in SCORED_STATUSES]
            known = [task for task, _ in ended]
            again = [task for task in tasks if task not in known and kind(task) in self._worked]
            if len(again) <= MAX_FAILED * len(tasks):
                break
            self._tell(Note(f"evaluation {name!r}: {len(again)} of {len(tasks)} episodes failed; again in {pause:g} s"))
            await asyncio.sleep(pause)
            played = ended + await self._play(name, again)
        self._worked.update(kind(task) for task, one in played if one.status in SCORED_STATUSES)
        result = summarise(
            name, self._store.run, self._config.environments, played, settings.tasks, monotonic() - began
        )
        self.results[name] = result
        await self._store.add_metrics(f"evaluation {name}", update, finite(result.json()))
        self._metrics.write("evaluation", update, result.json())
        self._tell(
            Evaluated(
                name,
                result.success,
                result.low,
                result.high,
                result.families,
                result.seconds,
                result.tasks,
                result.failed,
            )
        )
        if result.failed > MAX_FAILED * settings.tasks:
            errors = [one.error for _, one in played if one.error]
            raise TurnwiseError(
                f"evaluation {name!r}: {result.failed} of {settings.tasks} episodes failed, the last because "
                f"{errors[-1] if errors else 'their workers were lost'}"
            )

    async def _play(self, name: str, tasks: Sequence[Task]) -> list[tuple[Task, Outcome]]:
        """Play each task once, in a group of its own."""
        cluster, store = self._cluster, self._store
        groups = groups_of(
            store.run, f"{name.replace(' ', '-')}-v{cluster.version}-{uuid4().hex[:6]}", tasks, self._horizon
        )
        await asyncio.gather(*(store.open_group(group) for group in groups))
        deadline = self._config.rollout.group_timeout_s
        outcomes = await asyncio.gather(*(play_out(cluster.workers, store, group, deadline) for group in groups))
        await asyncio.gather(*(store.close_group(group.id, GroupState.FILTERED, "evaluation") for group in groups))
        return [(group.task, one) for group, ended in zip(groups, outcomes, strict=True) for one in ended]
