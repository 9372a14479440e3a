"""Values that the methods of an environment return are checked by name, also those outside of a step."""

from typing import Any

import gymnasium
import pytest
from turnwise.envs.base import Adapted, TurnEnv, checked_actions, checked_oracle, checked_vocabulary
from turnwise.envs.dataset import DatasetEnv
from turnwise.envs.errors import EnvironmentBroken
from turnwise.envs.registry import make
from turnwise.envs.runner.observations import observation_hash
from turnwise.envs.runner.step_result import from_step

PAIRS = "it must return (action, weight) pairs"


class Odd(TurnEnv):
    """Returns what a test sets."""

    returned: Any = None

    def oracle(self) -> str:
        return self.returned

    valid_actions = vocabulary = oracle  # type: ignore[assignment]

    def normalize(self, observation: Any) -> Any:
        return self.returned


def of(returned: Any, *, wrapped: bool = False) -> TurnEnv:
    env = Odd()
    env.returned = returned
    return Adapted(gymnasium.Wrapper(env)) if wrapped else env


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("returned", [3, 0.5, None, ["3"], True, b"3", pytest.param(10**5000, id="long")])
def test_an_oracle_returns_a_text(returned: Any, wrapped: bool) -> None:
    kind = "None" if returned is None else type(returned).__name__
    with pytest.raises(EnvironmentBroken, match=rf"^oracle\(\) of Odd returned {kind}.*; an action is a text$"):
        checked_oracle(of(returned, wrapped=wrapped))


@pytest.mark.parametrize(
    "returned",
    [None, 3, "say", [], ["say"], [(3, 1.0)], [(None, 1.0)], [("a", "b")], [("a", -1)], [("a", 0)], [("a", 10**400)]],
)
def test_valid_actions_are_pairs(returned: Any) -> None:
    with pytest.raises(EnvironmentBroken, match=r"^valid_actions\(\) of Odd returned .*") as raised:
        checked_actions(of(returned))
    assert PAIRS in str(raised.value)


@pytest.mark.parametrize("returned", [None, 3, "words", ["a", 3], []])
def test_a_vocabulary_is_texts(returned: Any) -> None:
    with pytest.raises(EnvironmentBroken, match=r"^vocabulary\(\) of Odd returned .*; it must return a list of texts$"):
        checked_vocabulary(of(returned))


@pytest.mark.parametrize("returned", [None, 3])
def test_normalize_returns_an_observation(returned: Any) -> None:
    with pytest.raises(EnvironmentBroken, match=rf"^normalize\(\) of Odd returned {returned}: observation is"):
        observation_hash(of(returned), "seen")


def test_right_values_pass() -> None:
    assert checked_oracle(of("go")) == "go"
    assert checked_actions(of((("go", 1),))) == [("go", 1.0)]
    assert checked_vocabulary(of({"go": 1})) == ["go"]


class Plain(gymnasium.Env[str, str]):
    """A Gymnasium environment that is not a ``TurnEnv``; ``answer`` is the result of a step."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        return "", {}

    def step(self, action: str) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (("next", 1.0, False, {}), "step returned a tuple of 4"),
        (None, "step returned NoneType"),
        (("next", None, False, False, {}), "reward is NoneType, not a number"),
        (("next", [1.0, 2.0], False, False, {}), "reward is list, not a number"),
        (("next", "1.0", False, False, {}), "reward is str, not a number"),
        (("next", 10**400, False, False, {}), "reward is inf; it must be finite"),
    ],
)
def test_a_step_of_a_plain_environment_is_named(answer: Any, why: str) -> None:
    env = Adapted(Plain(answer))
    with pytest.raises(EnvironmentBroken, match=why):
        from_step(env, env.step("go"))


class NoOptions(Plain):
    def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
        return "", {}


class NoSeed(Odd):
    def reset(self) -> Any:  # type: ignore[override]
        return "", {}


@pytest.mark.parametrize("kind", [NoOptions, NoSeed])
def test_a_reset_takes_seed_and_options(kind: Any) -> None:
    gymnasium.register("Reset-v0", entry_point=kind)
    try:
        with pytest.raises(EnvironmentBroken, match=r"^reset\(\) of No(Options|Seed) takes no seed and options"):
            make("Reset-v0")
    finally:
        del gymnasium.registry["Reset-v0"]


@pytest.mark.parametrize("value", [10**400, pytest.param(10**5000, id="long")])
def test_a_reward_function_that_overflows_is_named(value: int) -> None:
    def huge(action: str) -> float:
        return value

    class Rows(DatasetEnv):
        rubric = {huge: 1.0}  # noqa: RUF012

        def load(self, split: str) -> Any:
            return [{"prompt": "say"}]

    env = Rows()
    env.reset(seed=0, options={"split": "train"})
    with pytest.raises(EnvironmentBroken, match=r"the reward function `huge` returned .* it must return"):
        env.step("go")
