"""An evaluation labels the environments of its mixture, and counts successes by verdict, or without one by return."""

import asyncio
import json
from collections.abc import Sequence
from math import isnan
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.base.rates import Rate, is_counted, success_rate, wilson
from turnwise.errors import TurnwiseError
from turnwise.records import Group, GroupState, Horizon, Outcome, Status
from turnwise.trainer.config.sections import HELD_OUT_SEED, EnvironmentConfig
from turnwise.trainer.evaluation.heldout import held_out, labels, play_tasks, rates, summarize
from turnwise.trainer.telemetry import progress
from turnwise.trainer.telemetry.events import EvalResult

SITE, TINY = "turnwise/TextSite-v0", "turnwise/TinyWeb-v0"


@pytest.mark.parametrize(
    ("mixture", "expected"),
    [
        ([(SITE, {})], [SITE]),
        ([(SITE, {"family": "find"})], ["find"]),
        ([(SITE, {"family": "find"}), (SITE, {"family": "open"})], ["find", "open"]),
        ([(TINY, {"by": "site"})], [TINY]),
        ([(TINY, {"by": "site"}), (SITE, {"observation": "both"})], [TINY, SITE]),
        ([(TINY, {"by": "site"}), (TINY, {"by": "template"})], ["site", "template"]),
        (
            [(SITE, {"family": "mix"}), (TINY, {"family": "mix"})],
            [f'{env} {{"family": "mix"}}' for env in (SITE, TINY)],
        ),
    ],
)
def test_labels_are_families_then_other_options_then_all_options(
    mixture: list[tuple[str, dict[str, Any]]], expected: list[str]
) -> None:
    assert labels([EnvironmentConfig(id=env, options=options) for env, options in mixture]) == expected


@pytest.mark.parametrize(
    ("status", "verdict", "reward", "success"),
    [
        (Status.COMPLETED, None, 0.5, 1.0),
        (Status.COMPLETED, None, 0.4, 0.0),
        (Status.COMPLETED, False, 0.65, 0.0),
        (Status.COMPLETED, True, -0.1, 1.0),
        (Status.TRUNCATED, None, 0.65, 0.0),
        (Status.TRUNCATED, True, 0.0, 1.0),
    ],
)
def test_the_return_counts_only_without_a_verdict(
    status: Status, verdict: bool | None, reward: float, success: float
) -> None:
    mixture = [EnvironmentConfig(id=SITE)]
    (task,) = held_out(mixture, 1)
    played = [(task, Outcome("t", 0, 0, status, reward, verdict, 4, 8, ""))]
    result = summarize("after", "r", mixture, played, 1, 1.0)
    assert (result.success, result.by_environment[SITE].success) == (success, success)


def test_truncated_episodes_without_a_verdict_are_failures() -> None:
    mixture = [EnvironmentConfig(id=SITE, options={"family": family}) for family in ("find", "open")]
    played = [
        (task, Outcome(f"t{index}", 0, 0, Status.TRUNCATED, 0.0, None, 4, 8, ""))
        for index, task in enumerate(held_out(mixture, 4))
    ]
    result = summarize("after", "r", mixture, played, 4, 1.0)
    assert (result.success, result.by_environment) == (0.0, dict.fromkeys(("find", "open"), Rate.of([(0, 1)] * 2)))
    assert (result.tasks, result.failed) == (4, 0)
    assert 0.0 <= result.low < result.high < 1.0


def test_failures_of_the_policy_are_counted_and_those_of_the_world_left_out() -> None:
    """8 episodes: 2 of 5 counted ones are successes; a failure has no success, whatever the environment said before."""
    ends: list[tuple[Status, bool | None, float]] = [
        (Status.COMPLETED, True, 1.0),
        (Status.TRUNCATED, True, 1.0),
        (Status.TRUNCATED, None, 0.0),
        (Status.POLICY_ERROR, True, 0.5),
        (Status.TIMEOUT, None, 0.0),
        (Status.ENV_ERROR, True, 9.0),
        (Status.ENGINE_ERROR, None, 9.0),
        (Status.CANCELLED, False, 9.0),
    ]
    mixture = [EnvironmentConfig(id=SITE)]
    played = [
        (task, Outcome(f"t{index}", 0, 0, status, reward, success, 4, 8, "why"))
        for index, (task, (status, success, reward)) in enumerate(zip(held_out(mixture, 8), ends, strict=True))
    ]
    result = summarize("after", "r", mixture, played, 9, 1.0)
    assert (result.success, result.by_environment[SITE].success) == (0.4, 0.4)
    assert (result.tasks, result.failed, result.failed_by_policy) == (5, 4, 2), "one had no outcome at all"
    assert (result.reward, result.turns) == (0.5, 4.0)
    assert (result.low, result.high) == pytest.approx(wilson(2, 5))


def test_the_samples_of_a_task_count_as_one_task() -> None:
    """Of two tasks with four samples each, the first succeeds once and the second four times; a fifth sample failed."""
    mixture = [EnvironmentConfig(id=SITE, options={"family": family}) for family in ("find", "open")]
    first, second = held_out(mixture, 2)
    ends = [(first, True), *[(first, False)] * 3, *[(second, True)] * 4]
    played = [
        (task, Outcome(f"t{number}", 0, 0, Status.COMPLETED, 0.0, success, 4, 8, ""))
        for number, (task, success) in enumerate(ends)
    ]
    result = summarize("after", "r", mixture, played, 10, 1.0)
    assert (result.tasks, result.episodes, result.failed, result.success) == (2, 8, 2, 0.625)
    assert result.by_environment == {"find": Rate.of([(1, 4)]), "open": Rate.of([(4, 4)])}
    assert result.pass_at == {"2": 0.75, "4": 1.0}
    assert result.pass_all == {"2": 0.5, "4": 0.5}
    assert EvalResult.of_json(json.loads(json.dumps(result.json()))) == result


def test_a_rate_decides_about_every_status() -> None:
    counted = {Status.COMPLETED, Status.TRUNCATED, Status.POLICY_ERROR, Status.TIMEOUT}
    left_out = {Status.RUNNING, Status.ENV_ERROR, Status.ENGINE_ERROR, Status.CANCELLED}
    assert counted | left_out == set(Status)
    assert {status for status in Status if is_counted(status)} == counted
    assert isnan(success_rate((True, status, 1.0) for status in left_out))


def test_an_environment_that_is_listed_twice_counts_once() -> None:
    """Otherwise its enumerated tasks are played twice, as if they had two samples."""
    guess = EnvironmentConfig(id="turnwise/GuessNumber-v0")
    assert [one.seed for one in held_out([guess, guess], 6, seeds=[(5, 9), (5, 9)])] == [5, 9]
    mixture = [EnvironmentConfig(id=SITE), guess, guess]
    assert [one.env_id for one in held_out(mixture, 4, seeds=[None, None, None])] == [SITE, guess.id] * 2
    assert list(rates(mixture, [])[1]) == [SITE, guess.id]


@pytest.mark.parametrize("end", [TurnwiseError("engines died 4 times"), asyncio.CancelledError()])
def test_the_first_engine_that_cannot_serve_or_a_stop_ends_the_others_and_closes_their_groups(
    end: BaseException,
) -> None:
    closed: list[tuple[str, GroupState]] = []
    playing: list[asyncio.Task[None]] = []

    async def open_group(group: Group) -> None:
        """Store nothing."""

    async def close_group(group: str, state: GroupState, reason: str) -> None:
        closed.append((group, state))

    async def play(group: Group) -> Sequence[Outcome]:
        if group.id == "r:eval-e-1":
            if isinstance(end, asyncio.CancelledError):
                asyncio.get_running_loop().call_soon(playing[0].cancel)
            else:
                raise end
        await asyncio.sleep(60)
        return []

    async def play_all() -> None:
        playing.append(asyncio.current_task())  # type: ignore[arg-type]
        await play_tasks(store, "e", tasks, Horizon(1, 1, 1, 1), play)  # type: ignore[arg-type]

    store = SimpleNamespace(run="r", open_group=open_group, close_group=close_group)
    tasks = [(task, 1) for task in held_out([EnvironmentConfig(id=SITE)], 3)]
    with pytest.raises(type(end)):
        asyncio.run(play_all())
    assert sorted(closed) == [(f"r:eval-e-{number}", GroupState.FAILED) for number in range(3)]


def test_progress_has_the_episodes_done_their_success_and_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.05)
    reported: list[str] = []

    async def nothing(*values: object) -> None:
        """Store nothing."""

    async def play(group: Group) -> Sequence[Outcome]:
        number = int(group.id.rpartition("-")[2])
        await asyncio.sleep(0.2 if number == 2 else 0)
        status = Status.ENV_ERROR if number else Status.COMPLETED
        return [Outcome("t", 0, 0, status, 1.0, None, 1, 1, "")]

    store = SimpleNamespace(run="r", open_group=nothing, close_group=nothing)
    tasks = [(task, 1) for task in held_out([EnvironmentConfig(id=SITE)], 3)]
    playing = play_tasks(store, "e", tasks, Horizon(1, 1, 1, 1), play, reported.append)  # type: ignore[arg-type]
    asyncio.run(playing)
    assert reported[0] == "2 of 3 episodes, success 1.000 so far, about 0 s remain"


def test_environments_that_enumerate_their_tasks_play_these_at_most_once_each() -> None:
    mixture = [EnvironmentConfig(id=SITE), EnvironmentConfig(id="turnwise/GuessNumber-v0")]
    tasks = held_out(mixture, 8, seeds=[None, (5, 9)])
    assert [(one.env_id, one.seed) for one in tasks] == [
        (SITE, HELD_OUT_SEED),
        ("turnwise/GuessNumber-v0", 5),
        (SITE, HELD_OUT_SEED + 2),
        ("turnwise/GuessNumber-v0", 9),
        (SITE, HELD_OUT_SEED + 4),
        (SITE, HELD_OUT_SEED + 6),
    ]
    assert [(one.seed, one.split) for one in held_out(mixture[1:], 1, "train", seeds=[(5, 9)])] == [(5, "train")]
