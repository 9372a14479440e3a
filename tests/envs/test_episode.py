"""Every environment that derives from ``EpisodeEnv`` begins, ends and fails in one way."""

import pytest
from turnwise.envs.episode import EpisodeEnv, Turn


class Counting(EpisodeEnv[int]):
    """Counts down from the seed; "break" raises."""

    restorable = True

    @property
    def state_key(self) -> str:
        return str(self.episode)

    def _begin(self, seed: int, split: str) -> Turn:
        if seed == 13:
            raise LookupError("no such instance")
        self.episode = seed
        return Turn(f"{split} {seed}")

    def _play(self, action: str) -> Turn:
        if action == "break":
            raise LookupError("the world is gone")
        self.episode -= 1
        return Turn(self.state_key, {"step": 0.5}, over=not self.episode, success=not self.episode, info={"extras": {}})


def test_a_step_before_the_first_reset_is_refused() -> None:
    env = Counting()
    with pytest.raises(RuntimeError, match="`Counting` was stepped before its first reset; call `reset` first"):
        env.step("go")
    with pytest.raises(RuntimeError, match="no episode before its first reset"):
        _ = env.episode


def test_a_turn_becomes_the_five_values_of_gymnasium() -> None:
    env = Counting()
    assert env.reset(seed=2, options={"split": "test"})[0] == "test 2"
    info = {"action_valid": True, "state_key": "1", "env_error": None, "success": False, "reward_parts": {"step": 0.5}}
    assert env.step("go") == ("1", 0.5, False, False, {**info, "extras": {}})
    assert env.step("go")[:4] == ("0", 0.5, True, False)


def test_every_action_after_the_end_gives_ended() -> None:
    env = Counting()
    env.reset(seed=1)
    env.step("go")
    for action in ("go", "break", ""):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (observation, reward, terminated, truncated) == ("ended", 0.0, True, False)
        assert (info["action_valid"], info["success"], info["reward_parts"]) == (False, False, {})


def test_an_episode_whose_step_or_start_raised_has_ended() -> None:
    env = Counting()
    env.reset(seed=2)
    with pytest.raises(LookupError):
        env.step("break")
    assert env.step("go")[0] == "ended"
    env.reset(seed=2)
    with pytest.raises(LookupError):
        env.reset(seed=13)
    assert env.step("go")[0] == "ended"
    assert env.reset(seed=2)[0] == "train 2"


def test_a_snapshot_holds_the_episode_and_its_end() -> None:
    env, other = Counting(), Counting()
    env.reset(seed=2)
    running = env.snapshot()
    env.step("go")
    env.step("go")
    other.restore(env.snapshot())
    assert other.step("go")[0] == "ended"
    other.restore(running)
    assert other.step("go")[0] == "1"


def test_without_a_seed_the_environment_draws_one() -> None:
    env = Counting()
    env.reset(seed=7)
    drawn = env.reset()[0]
    env.reset(seed=7)
    assert env.reset()[0] == drawn != "train 7"
    with pytest.raises(ValueError, match="unknown split 'dev' of `Counting`; choose from train, test"):
        env.reset(seed=0, options={"split": "dev"})
