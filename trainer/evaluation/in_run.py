"""Evaluation inside a run: play the held-out tasks with the version that the engines serve."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from time import monotonic
from uuid import uuid4

from ...base.rates import is_counted
from ...envs.runner.once import enumerated_seeds
from ...envs.tasks import env_key
from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, Outcome, Task
from ...store.schema import EVALUATION
from ..cluster.actors import Cluster
from ..context import RunContext
from ..failpoints import failpoint
from ..rollout.group_player import play_group
from ..telemetry.events import EvalResult, Note
from ..telemetry.metrics import finite
from .heldout import GREEDY_SAMPLES, group_prefix, held_out, play_tasks, summarize

MAX_FAILED_SHARE = 0.05
"""Share of the episodes that may fail; beyond it a rate over the others is meaningless."""
AUTO_SHARE = 0.05
"""Share of the training time that the evaluations of `evaluation.interval = "auto"` may take."""
IN_TRAINING = "update "
"""The names of the evaluations during training begin with this; the update follows."""
RETRY_PAUSES_S = (5.0, 15.0, 45.0, 135.0, 300.0, 600.0, 700.0)
"""Seconds before failed tasks are played again: half an hour in all, as ``rollout.circuit_breaker.OUTAGE_MAX_S``."""


def last_failure(outcomes: Sequence[Outcome]) -> str:
    """Return why the last episode that no rate counts failed."""
    errors = [outcome.error for outcome in outcomes if outcome.error and not is_counted(outcome.status)]
    return errors[-1] if errors else "their workers were lost"


class Evaluator:
    """Plays held-out tasks and keeps every result by name."""

    def __init__(self, context: RunContext, cluster: Cluster) -> None:
        self._context = context
        self._config = context.config
        self._store = context.store
        self._cluster = cluster
        self._worked: set[str] = set()
        """Environments with at least one scored episode so far."""
        self._seeds: Sequence[Sequence[int] | None] | None = None
        """By environment, the seeds of all its held-out tasks; None before the first evaluation."""
        self.results: dict[str, EvalResult] = {}

    async def evaluate(self, name: str, update: int) -> None:
        """Play the held-out tasks, and record the result as ``name`` at ``update``.

        Failed episodes of environments that worked before are played again, after growing pauses. Those of an
        environment that never worked are not, so that a broken environment is reported at once.

        Raises:
            TurnwiseError: more than ``MAX_FAILED_SHARE`` of the episodes failed.
        """
        settings = self._config.evaluation
        if not settings.tasks:
            return
        failpoint("evaluating")
        if not self.results and settings.samples > 1 and not self._config.evaluation_temperature:
            self._context.report(Note(GREEDY_SAMPLES))
        began, version = monotonic(), self._cluster.engines.version
        tasks = await self._tasks(settings.tasks)
        requested = len(tasks) * settings.samples
        named = f"{name.replace(' ', '-')}-v{version}-{uuid4().hex[:6]}"
        played = await self._play(name, named, [(task, settings.samples) for task in tasks])
        for attempt, pause in enumerate(RETRY_PAUSES_S, 2):
            ended = [(task, one) for task, one in played if is_counted(one.status)]
            known = Counter(task.id for task, _ in ended)
            missing = [(task, settings.samples - known[task.id]) for task in tasks if env_key(task) in self._worked]
            again = [(task, count) for task, count in missing if count]
            failed = sum(count for _, count in again)
            if failed <= MAX_FAILED_SHARE * requested:
                break
            self._context.report(
                Note(f"evaluation {name!r}: {failed} of {requested} episodes failed; again in {pause:g} s")
            )
            await asyncio.sleep(pause)
            played = ended + await self._play(name, f"{named}-{attempt}", again)
        self._worked.update(env_key(task) for task, one in played if one.status in SCORED_STATUSES)
        result = summarize(name, self._store.run, self._config.environments, played, requested, monotonic() - began)
        result = replace(
            result, version=version, samples=settings.samples, temperature=self._config.evaluation_temperature
        )
        self.results[name] = result
        groups = {"groups": group_prefix(self._store.run, named)}
        await self._store.add_metrics(f"{EVALUATION}{name}", update, finite(result.json()) | groups)
        self._context.metrics.write("evaluation", update, result.json())
        self._context.report(result)
        if result.failed > MAX_FAILED_SHARE * requested:
            raise TurnwiseError(
                f"evaluation {name!r}: {result.failed} of {requested} episodes failed, the last because "
                f"{last_failure([one for _, one in played])}"
            )

    def is_due(self, update: int, trained_s: float) -> bool:
        """Return whether ``evaluation.interval`` demands an evaluation after an update.

        ``auto`` leaves out those that would take more than ``AUTO_SHARE`` of the ``trained_s`` seconds of training.
        """
        interval = self._config.evaluation.interval
        if interval != "auto":
            return interval > 0 and update % interval == 0
        if not self.results or update % self._config.checkpoint.interval:
            return False
        spent_s = sum(one.seconds for name, one in self.results.items() if name.startswith(IN_TRAINING))
        next_s = list(self.results.values())[-1].seconds
        return spent_s + next_s <= AUTO_SHARE * trained_s

    def is_best(self, name: str) -> bool:
        """Return whether the evaluation ``name`` has a higher success than every other one with its settings."""
        if (found := self.results.get(name)) is None:
            return False
        others = [one for other, one in self.results.items() if other != name and one.is_comparable(found)]
        return found.success > max((one.success for one in others if not isnan(one.success)), default=-1.0)

    async def _tasks(self, count: int) -> list[Task]:
        """Return the held-out tasks; each environment enumerates them once."""
        mixture = self._config.environments
        if self._seeds is None:
            self._seeds = await asyncio.to_thread(
                lambda: [enumerated_seeds(one.id, one.options, "test") for one in mixture]
            )
        return held_out(mixture, count, seeds=self._seeds)

    async def _play(self, shown: str, name: str, tasks: Sequence[tuple[Task, int]]) -> list[tuple[Task, Outcome]]:
        cluster, store = self._cluster, self._store
        timeout_s = self._config.rollout.group_timeout_s
        return await play_tasks(
            store,
            name,
            tasks,
            self._config.horizon.longest(),
            lambda group: play_group(cluster.workers, store, group, timeout_s),
            lambda text: self._context.report(Note(f"{shown}: {text}")),
        )
