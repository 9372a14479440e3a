"""All environments of ``turnwise.envs.worlds.text``: contract, levels, splits, rewards, snapshots, any text.

`make soak` plays more tasks and texts.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnwise.envs import make
from turnwise.envs.authoring.check import check
from turnwise.envs.errors import EnvironmentFailed
from turnwise.envs.runner.once import enumerated_seeds
from turnwise.envs.worlds import ENVIRONMENTS
from turnwise.envs.worlds.text.base import INVALID_REWARD, MAX_OBSERVATION_CHARS, SUCCESS_REWARD, LanguageEnv
from turnwise.envs.worlds.text.calculator import CalculatorEnv
from turnwise.envs.worlds.text.guess_number import GuessNumberEnv
from turnwise.envs.worlds.text.table_lookup import TableLookupEnv
from turnwise.envs.worlds.text.twenty_questions import TwentyQuestionsEnv

ENVS: tuple[type[LanguageEnv], ...] = (GuessNumberEnv, CalculatorEnv, TableLookupEnv, TwentyQuestionsEnv)
LEVELS = (1, 2, 3)
env_types = pytest.mark.parametrize("env_type", ENVS, ids=lambda env_type: env_type.__name__)
levels = pytest.mark.parametrize("level", LEVELS)


def test_every_environment_of_the_folder_is_here() -> None:
    registered = {env_id for env_id, entry in ENVIRONMENTS.items() if entry.startswith("text.")}
    assert registered == {env_type.name for env_type in ENVS}


@env_types
@pytest.mark.parametrize("level", [2, *(pytest.param(level, marks=pytest.mark.soak) for level in (1, 3))])
def test_the_contract_holds(env_type: type[LanguageEnv], level: int) -> None:
    report = check(env_type.name, {"level": level})
    assert report.ok, "\n".join(report.lines())


@env_types
@levels
@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.soak)])
def test_the_oracle_always_succeeds_within_the_turns(env_type: type[LanguageEnv], level: int, count: int) -> None:
    env = env_type(level)
    for seed in range(count):
        env.reset(seed=seed, options={"split": "test"})
        for turn in range(1, env.max_turns + 1):
            _, _, terminated, _, info = env.step(env.oracle())
            assert info["action_valid"]
            assert terminated or turn < env.max_turns
            if terminated:
                break
        assert info["success"], seed


@env_types
@levels
@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.soak)])
def test_splits_share_no_instance(env_type: type[LanguageEnv], level: int, count: int) -> None:
    env = env_type(level)

    def keys(split: str, count: int) -> set[str]:
        found = set()
        for seed in range(count):
            env.reset(seed=seed, options={"split": split})
            found.add(env.episode.puzzle.key)
        return found

    train, test = keys("train", 4 * count), keys("test", count)
    assert not train & test
    assert len(train) > 250
    assert len(test) > 60


@env_types
def test_the_instructions_show_an_action_and_stay_short(env_type: type[LanguageEnv]) -> None:
    for level in LEVELS:
        env = env_type(level)
        first, _ = env.reset(seed=3)
        assert isinstance(first, str)
        assert "example" in env.instructions().lower()
        assert len(f"{env.instructions()} {first}") < 600


@env_types
def test_an_invalid_action_takes_a_turn_and_costs(env_type: type[LanguageEnv]) -> None:
    env = env_type()
    env.reset(seed=1)
    for turn in range(1, env.max_turns + 1):
        text, reward, terminated, truncated, info = env.step("Hello! How can I help?")
        assert (reward, info["action_valid"], info["success"]) == (INVALID_REWARD, False, False)
        assert info["reward_parts"] == {"invalid": INVALID_REWARD}
        assert text
        assert (terminated, truncated) == (turn == env.max_turns, False)
    assert env.step(env.oracle())[:4] == ("The game is over.", 0.0, True, False)


@env_types
def test_unknown_options_are_refused(env_type: type[LanguageEnv]) -> None:
    with pytest.raises(ValueError, match=f"unknown `level` 4 of `{env_type.name}`; choose from 1, 2, 3"):
        env_type(4)
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        env_type().reset(seed=0, options={"split": "dev"})
    with pytest.raises(RuntimeError, match="before its first reset"):
        env_type().step("1")
    with pytest.raises(EnvironmentFailed, match=f"`pool_size` of `{env_type.name}` is -1"):
        enumerated_seeds(env_type.name, {"pool_size": -1})
    assert enumerated_seeds(env_type.name, {"pool_size": 3}) == (0, 1, 2)
    assert enumerated_seeds(env_type.name, {}) is None


seeds = st.integers(0, 2**32)
words = st.sampled_from(
    ["My guess is", "answer", "35", "-35", "35.5", "1,000", "+", "*", "(", ")", "/", "0", "=", "?", "."]
)
texts = st.one_of(st.text(max_size=60), st.lists(words, max_size=6).map(" ".join))


@env_types
@pytest.mark.parametrize("examples", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_any_text_is_an_outcome(env_type: type[LanguageEnv], examples: int) -> None:
    played = given(
        env_type=st.just(env_type),
        seed=seeds,
        level=st.sampled_from(LEVELS),
        actions=st.lists(texts, max_size=8),
        picks=st.randoms(),
    )
    settings(max_examples=examples, deadline=None)(played(check_texts))()


def check_texts(env_type: type[LanguageEnv], seed: int, level: int, actions: list[str], picks: random.Random) -> None:
    """Odd texts and valid actions alternate; an episode replays exactly, also from a snapshot."""
    env, again = env_type(level), make(env_type.name, level=level)
    first = env.reset(seed=seed)
    assert again.reset(seed=seed) == first
    total, terminated = 0.0, False
    for action in actions:
        valid = [text for text, weight in env.valid_actions() if weight > 0]
        chosen = picks.choice([action, picks.choice(valid)])
        over = terminated
        after = env.step(chosen)
        observation, reward, terminated, truncated, info = after
        assert isinstance(observation, str)
        assert 0 < len(observation) <= MAX_OBSERVATION_CHARS
        assert sum(info["reward_parts"].values()) == pytest.approx(reward)
        assert info["success"] <= terminated
        assert info["action_valid"] or over or chosen not in valid
        assert not truncated
        assert same(again.step(chosen), after)
        again.restore(env.snapshot())
        total += reward
    assert total <= SUCCESS_REWARD + 0.5


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return repr(one) == repr(other)
