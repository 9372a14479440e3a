"""TinyDesktop: a real calculator in few words."""

import pytest
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.envs.worlds.tiny.desktop import KINDS, VOCABULARY, TinyDesktopEnv, draw, is_held_out


@pytest.fixture(scope="module")
def env(desktop: DesktopSession) -> TinyDesktopEnv:
    """One calculator for all tests of the module."""
    made = TinyDesktopEnv()
    made._desktop = desktop
    return made


def test_the_oracle_solves_every_kind_and_all_words_are_known(env: TinyDesktopEnv) -> None:
    seen = set()
    for seed in range(40):
        if (kind := draw(seed, "train", "instance").kind) in seen:
            continue
        seen.add(kind)
        observation, _ = env.reset(seed=seed)
        over, rewards = False, 0.0
        while not over:
            assert set(str(observation).split()) <= set(VOCABULARY)
            observation, reward, over, _, info = env.step(env.oracle())
            rewards += reward
        assert (observation, rewards, info["success"]) == ("right", 1.0, True)
    assert len(seen) == len(KINDS["trained"])


def test_an_episode_starts_the_same_in_a_used_calculator(env: TinyDesktopEnv) -> None:
    first, _ = env.reset(seed=3)
    env.step("click 7")
    env.step("click plus")
    again, _ = env.reset(seed=3)
    assert again == first


def test_wrong_and_invalid_actions_cost(env: TinyDesktopEnv) -> None:
    _shown, _ = env.reset(seed=0)
    for action in ("click", "click done", "7", "click 77", ""):
        observation, reward, over, _, info = env.step(action)
        assert (reward, over, info["action_valid"]) == (-0.05, False, False)
        assert str(observation).startswith("invalid display")
    observation, reward, over, _, info = env.step("done")
    assert (observation, reward, over, info["success"]) == ("wrong", -0.3, True, False)
    assert env.step("done")[:3] == ("ended", 0.0, True)
    assert "ended" in VOCABULARY


def test_the_splits_share_no_instance() -> None:
    for split in ("train", "test"):
        assert all(is_held_out(draw(seed, split, "instance")) == (split == "test") for seed in range(200))
    assert {draw(seed, "test", "template").kind for seed in range(20)} == {"add"}


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown `by`"):
        TinyDesktopEnv(by="site")
