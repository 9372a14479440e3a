"""Another runner plays the episodes of an environment that names it: the agent, here a function, asks the policy."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from turnwise.agents.errors import EngineFailed
from turnwise.agents.rollout.control import CONTINUES, LOSS_WEIGHT
from turnwise.agents.rollout.episode import Episode
from turnwise.agents.rollout.progress import IMAGE_SIZES, TARGETS
from turnwise.agents.rollout.runners import ENV_PACKAGE, RUNNERS
from turnwise.agents.rollout.screenshots import SCREENSHOT_ERROR
from turnwise.envs.runner.step_result import RUNNER_EXTRAS
from turnwise.envs.tasks import make_task
from turnwise.envs.worlds.tiny.text import TextSiteEnv
from turnwise.errors import TurnwiseError
from turnwise.records import Status, Step
from turnwise.store.queries import load_trajectory
from turnwise.tests.agents.players import Stage, always, group, on_stage

DRIVEN = "runners/Driven-v0"


class Driven(TextSiteEnv):
    """A text site whose episodes an agent drives."""

    runner = "driven"


gymnasium.register(DRIVEN, entry_point=Driven)  # type: ignore[arg-type]

Agent = Callable[[Callable[[str], Awaitable[str]]], Awaitable[float]]


def driven_by(agent: Agent) -> Callable[[Episode], Any]:
    """Return a runner in which ``agent`` gets a function that sends a text to the policy, and returns the reward."""

    class Runner:
        def __init__(self, episode: Episode) -> None:
            self.episode = episode

        async def run(self) -> Status:
            self.episode.progress.reward = await agent(self._ask)
            self.episode.progress.success = True
            return Status.COMPLETED

        async def _ask(self, text: str) -> str:
            episode = self.episode
            played = await episode.player.act(text, ())
            last = played.messages[-1].index if played.messages else None
            ends: Any = {"terminated": False, "truncated": False, "action_valid": True, "state_key": ""}
            step = Step(
                episode.progress.turns, text, "", played.text, 0.0, {}, **ends, message=last, model_ms=0, env_ms=0
            )
            episode.add_turn(step, played.messages, tokens=played.tokens)
            return played.text

    return Runner


async def counts(ask: Callable[[str], Awaitable[str]]) -> float:
    """Ask twice, and return the length of both answers."""
    return float(len(await ask("one") + await ask("two")))


async def fails(ask: Callable[[str], Awaitable[str]]) -> float:
    """Ask once, and fail."""
    await ask("one")
    raise EngineFailed("the endpoint is away")


@pytest.mark.parametrize(
    ("agent", "status", "reward", "turns"), [(counts, "completed", 4, 2), (fails, "engine_error", 0, 1)]
)
def test_the_runner_of_the_environment_plays_its_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Agent, status: str, reward: float, turns: int
) -> None:
    monkeypatch.setitem(RUNNERS, "driven", driven_by(agent))

    async def scenario(stage: Stage) -> None:
        outcomes = await stage.play(lambda *_: always("go"), group(make_task(DRIVEN, 0, "train", {}), 2))
        assert [(one.status, one.reward, one.turns) for one in outcomes] == [(status, reward, turns)] * 2
        assert [one.attempt for one in outcomes] == [1 if status == "engine_error" else 0] * 2
        stored = load_trajectory(stage.database, outcomes[0].trajectory)
        assert (stored.status, stored.reward, [step.action for step in stored.steps]) == (
            status,
            reward,
            ["go"] * turns,
        )
        assert len(stored.messages) == 2 * turns

    on_stage(tmp_path, scenario)


def test_an_environment_with_an_unknown_runner_is_named(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match=rf"{DRIVEN} declares the runner 'driven': `runner` must be one of gym"):
            await stage.play(lambda *_: always("go"), group(make_task(DRIVEN, 0, "train", {})))

    on_stage(tmp_path, scenario)


def test_no_environment_may_write_the_extras_of_the_runner() -> None:
    assert {CONTINUES, ENV_PACKAGE, IMAGE_SIZES, LOSS_WEIGHT, SCREENSHOT_ERROR, TARGETS} == RUNNER_EXTRAS
