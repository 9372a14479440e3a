"""Whose fault a timeout is: scoring, and whatever else is not the agent's action, is never charged to the policy."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.judge import Judge
from turnwise.agents.rollout.timeouts import Fault
from turnwise.envs import DatasetEnv, FreeText, TurnEnv
from turnwise.envs.tasks import make_task
from turnwise.records import Outcome, Status
from turnwise.tests.agents.players import QUICK, always, group, on_stage, wait_for_abandoned_threads
from turnwise.tests.agents.servers import Counter, serving

SHORT = replace(QUICK, step_s=0.3, scoring_s=0.6)
RELEASED = threading.Event()
URL: dict[str, str] = {}
JUDGES: dict[tuple[str, str, int], Judge] = {}


async def silent(action: str) -> float:
    await asyncio.Event().wait()
    return 1


def sleeping(action: str) -> float:
    RELEASED.wait(20)
    return 1


async def blocking(action: str) -> float:
    RELEASED.wait(20)
    return 1


def slow(action: str) -> float:
    time.sleep(0.5)
    return 1


async def judged(conversation: Any, row: Any) -> float:
    """Ask one judge twice, one request at a time for all episodes."""
    one = JUDGES.setdefault((URL["url"], "one", 1), Judge("one", "?", url=URL["url"], model="m", max_requests=1))
    return sum(await asyncio.gather(one(conversation, row), one(conversation, row)))


FUNCTIONS: dict[str, Any] = {
    "silent": silent,
    "sleeping": sleeping,
    "blocking": blocking,
    "slow": slow,
    "judged": judged,
}


class Rows(DatasetEnv):
    """One row, scored by the function ``scores``; ``responds`` is where ``respond`` hangs."""

    def __init__(self, scores: str = "slow", responds: str = "") -> None:
        self.rubric: Any = {FUNCTIONS[scores]: 1.0}  # type: ignore[misc]
        self.responds = responds

    def load(self, split: str) -> Any:
        return [{"prompt": "?"}]

    def respond(self, action: str, row: Any, conversation: Any) -> Any:
        return FUNCTIONS[self.responds](action) if self.responds else None


class Plain(TurnEnv):
    """A world that asks a judge in its step; with ``declared``, as scoring."""

    def __init__(self, seconds: float, declared: bool = True, charges_steps: bool = False) -> None:
        self.action_space = self.observation_space = FreeText(words=("go",))
        self.seconds, self.declared, self.charges_steps = seconds, declared, charges_steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return "go", {}

    def step(self, action: str) -> Any:
        if self.declared:
            with self.scoring():
                RELEASED.wait(self.seconds)
        else:
            RELEASED.wait(self.seconds)
        return "go", 1.0, True, False, {"success": True}


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    RELEASED.clear()
    yield
    RELEASED.set()
    wait_for_abandoned_threads()


def played(tmp_path: Path, env: Any, options: dict[str, Any], members: int = 1) -> list[Outcome]:
    import gymnasium

    env_id = f"WhoseFault{env.__name__}-v0"
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point=env)

    async def scenario(stage: Any) -> list[Outcome]:
        task = make_task(env_id, 0, "train", options)
        found: list[Outcome] = await stage.play(lambda *_: always("go"), group(task, members), SHORT)
        return found

    found: list[Outcome] = on_stage(tmp_path, scenario)
    return found


@pytest.mark.parametrize(
    ("env", "options", "reason"),
    [
        (Rows, {"scores": "silent"}, "`silent` (row 0 of `train`) did not return before its timeout"),
        (Rows, {"scores": "sleeping"}, "scoring exceeded its timeout"),
        (Rows, {"scores": "blocking"}, "blocks their event loop"),
        (Rows, {"responds": "silent"}, "`respond` did not return before its timeout"),
        (Rows, {"responds": "sleeping"}, "step did not return within 0.3 s"),
        (Plain, {"seconds": 9.0, "declared": False}, "step did not return within 0.3 s"),
        (Plain, {"seconds": 9.0, "charges_steps": True}, "scoring exceeded its timeout"),
    ],
)
def test_a_hang_outside_of_the_agents_action_is_a_failure_of_the_environment_and_played_again(
    tmp_path: Path, env: Any, options: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.envs.dataset.coroutines.GRACE_S", 0.2)
    (outcome,) = played(tmp_path, env, options)
    assert (outcome.status, outcome.attempt) == (Status.ENV_ERROR, 1)
    assert reason in outcome.error


@pytest.mark.parametrize(
    ("env", "options"), [(Rows, {"scores": "slow"}), (Plain, {"seconds": 0.5}), (Plain, {"seconds": 0.8})]
)
def test_scoring_may_take_longer_than_a_step(tmp_path: Path, env: Any, options: dict[str, Any]) -> None:
    (outcome,) = played(tmp_path, env, options)
    assert outcome.status is Status.COMPLETED


def test_a_wait_for_a_judges_slot_counts_against_no_timeout(tmp_path: Path) -> None:
    """Eight answers of 0.2 s, one at a time, of which each episode waits for most: more than both timeouts."""
    with serving(Counter('{"score": 0.5}', together=99, patience_s=0.2)) as URL["url"]:
        outcomes = played(tmp_path, Rows, {"scores": "judged"}, members=4)
    assert [one.status for one in outcomes] == [Status.COMPLETED] * 4


def test_a_slow_environment_takes_no_time_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("turnwise.agents.rollout.timeouts.monotonic", lambda: now)
    slow_world, charging = Fault(10.0, charges_steps=False), Fault(10.0, charges_steps=True)
    with slow_world.step(), charging.step():
        now = 8.0
    now = 10.0
    assert (slow_world.is_policys_group(), charging.is_policys_group()) == (False, True)
    now = 14.0
    assert slow_world.is_policys_group()
