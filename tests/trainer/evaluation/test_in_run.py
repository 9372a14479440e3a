"""When a run is evaluated, which of its evaluations is the best, and why one failed."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from turnwise.errors import TurnwiseError
from turnwise.records import Outcome, Status, Task
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.evaluation import heldout, in_run
from turnwise.trainer.evaluation.in_run import Evaluator, last_failure
from turnwise.trainer.telemetry.events import EvalResult, Event, Note
from turnwise.trainer.telemetry.metrics import Metrics


def outcome(status: Status, error: str) -> Outcome:
    return Outcome("demo:1-0", 0, 0, status, 0.0, None, 3, 9, error)


def test_the_reason_is_that_of_an_episode_without_a_score() -> None:
    played = [
        outcome(Status.ENV_ERROR, "the database is away"),
        outcome(Status.TRUNCATED, "6 turns played"),
        outcome(Status.COMPLETED, ""),
    ]
    assert last_failure(played) == "the database is away"
    assert last_failure(played[1:]) == "their workers were lost"


def evaluator(settings: dict[str, Any], **results: tuple[float, float]) -> Evaluator:
    """Return the evaluator of a run with results, each a success and its seconds; ``_`` in a name is a space."""
    config = parse_config({"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], **settings})
    one = Evaluator(SimpleNamespace(config=config, store=None), None)  # type: ignore[arg-type]
    for name, (success, seconds) in results.items():
        called = name.replace("_", " ")
        one.results[called] = EvalResult(called, "r", 10, 0, 0, success, 0.0, 1.0, 0.0, 1.0, seconds=seconds)
    return one


class Played(Evaluator):
    """Has 20 held-out tasks, of which two cannot be played."""

    worked: ClassVar[Sequence[str]] = ()
    reported: ClassVar[list[Event]] = []
    groups: ClassVar[str]
    """How the ids of the groups of the stored evaluation begin."""

    async def _tasks(self, count: int) -> list[Task]:
        return [Task(str(seed), "turnwise/TextSite-v0", "0", seed, "test", {}) for seed in range(20)]

    async def _play(self, shown: str, name: str, tasks: Sequence[tuple[Task, int]]) -> list[tuple[Task, Outcome]]:
        failed = outcome(Status.ENV_ERROR, "the site is away")
        return [(task, failed if task.seed < 2 else outcome(Status.COMPLETED, "")) for task, _ in tasks]


def played(kind: type[Played], folder: Path, settings: dict[str, Any]) -> Played:
    """Return an evaluator of a run, after an evaluation."""

    async def add_metrics(name: str, update: int, metrics: dict[str, Any]) -> None:
        kind.groups = metrics["groups"]

    config = parse_config({"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], **settings})
    metrics = Metrics(folder)
    store = SimpleNamespace(run="r", add_metrics=add_metrics)
    context = SimpleNamespace(config=config, store=store, metrics=metrics, report=kind.reported.append)
    one = kind(context, SimpleNamespace(engines=SimpleNamespace(version=0)))  # type: ignore[arg-type]
    one._worked = set(kind.worked)
    try:
        asyncio.run(one.evaluate("after", 3))
    finally:
        metrics.finish("stopped")
    return one


def test_the_share_of_failed_episodes_is_that_of_the_tasks_that_exist(tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="2 of 20 episodes failed, the last because the site is away"):
        played(Played, tmp_path, {"evaluation": {"tasks": 200}})


class Failing(Played):
    """Loses a sample of each of the first ten tasks, the first time."""

    worked: ClassVar[Sequence[str]] = ("turnwise/TextSite-v0",)
    rounds: ClassVar[list[list[tuple[int, int]]]] = []
    names: ClassVar[list[str]] = []

    async def _play(self, shown: str, name: str, tasks: Sequence[tuple[Task, int]]) -> list[tuple[Task, Outcome]]:
        self.rounds.append([(task.seed, samples) for task, samples in tasks])
        self.names.append(name)
        first = len(self.rounds) == 1
        ends = [
            (task, Status.ENV_ERROR if first and task.seed < 10 and not member else Status.COMPLETED)
            for task, samples in tasks
            for member in range(samples)
        ]
        return [(task, outcome(status, "")) for task, status in ends]


def test_only_the_samples_that_failed_are_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_run, "RETRY_PAUSES_S", (0.0,))
    result = played(Failing, tmp_path, {"evaluation": {"samples": 3}}).results["after"]
    assert Failing.rounds == [[(seed, 3) for seed in range(20)], [(seed, 1) for seed in range(10)]]
    assert (result.tasks, result.episodes, result.failed) == (20, 60, 0)
    assert (result.samples, result.temperature) == (3, 1.0)
    assert len(set(Failing.names)) == 2
    assert all(f"r:eval-{name}-".startswith(Failing.groups) for name in Failing.names)


class Working(Played):
    """Plays every task."""

    reported: ClassVar[list[Event]] = []

    async def _play(self, shown: str, name: str, tasks: Sequence[tuple[Task, int]]) -> list[tuple[Task, Outcome]]:
        return [(task, outcome(Status.COMPLETED, "")) for task, samples in tasks for _ in range(samples)]


def test_samples_of_greedy_evaluations_are_noted(tmp_path: Path) -> None:
    played(Working, tmp_path, {"evaluation": {"samples": 2, "temperature": 0}})
    assert Note(heldout.GREEDY_SAMPLES) in Working.reported
    Working.reported.clear()
    played(Working, tmp_path, {"evaluation": {"temperature": 0}})
    assert Note(heldout.GREEDY_SAMPLES) not in Working.reported


def test_a_task_has_at_most_1024_samples() -> None:
    with pytest.raises(TurnwiseError, match=r"evaluation\.samples.*1024"):
        evaluator({"evaluation": {"samples": 1025}})


def test_by_default_evaluations_come_with_checkpoints_and_take_a_twentieth_of_the_training() -> None:
    begun = evaluator({}, untrained=(0.1, 99.0), warmup=(0.2, 2.0))
    assert [begun.is_due(update, 40.0) for update in (24, 25, 26, 50)] == [False, True, False, True]
    assert not begun.is_due(25, 39.0)
    later = evaluator({}, warmup=(0.2, 2.0), update_25=(0.3, 3.0))
    assert not later.is_due(50, 119.0)
    assert later.is_due(50, 120.0)
    assert not evaluator({}).is_due(25, 1e6), "without held-out tasks there is nothing to evaluate"


@pytest.mark.parametrize(("interval", "due"), [(0, []), (3, [3, 6])])
def test_a_given_interval_is_kept_at_any_cost(interval: int, due: list[int]) -> None:
    one = evaluator({"evaluation": {"interval": interval}}, warmup=(0.2, 900.0))
    assert [update for update in range(1, 8) if one.is_due(update, 1.0)] == due


def test_the_best_evaluation_is_the_first_of_the_highest_success() -> None:
    one = evaluator({}, warmup=(float("nan"), 1.0), update_25=(0.5, 1.0), update_50=(0.5, 1.0), update_75=(0.7, 1.0))
    assert [name for name in one.results if one.is_best(name)] == ["update 75"]
    one.results["update 100"] = replace(one.results["update 25"], temperature=0.0)
    assert one.is_best("update 100"), "the others were not greedy"
    del one.results["update 75"]
    assert not one.is_best("update 50")
    assert not one.is_best("update 75")
