"""``turnwise/TinyCode-v0`` matches its docstring, and each policy earns the expected reward.

The oracle plays more seeds in the soak.
"""

import random
from collections.abc import Callable, Iterator

import pytest
from turnwise.envs import make
from turnwise.envs.authoring.check import check
from turnwise.envs.runner.observations import observation_hash
from turnwise.envs.worlds.tiny.code import CALLS, HIDDEN, OPERATIONS, VALUES, VOCABULARY, TinyCodeEnv

Make = Callable[[], TinyCodeEnv]
WORDS = frozenset(VOCABULARY)
HORIZON = 12


@pytest.fixture
def made() -> Iterator[Make]:
    """Return a factory of environments, and close them at the end."""
    all_made: list[TinyCodeEnv] = []

    def make_one() -> TinyCodeEnv:
        all_made.append(TinyCodeEnv())
        return all_made[-1]

    yield make_one
    for env in all_made:
        env.close()


def play(env: TinyCodeEnv, seed: int, chooses: random.Random | None) -> tuple[bool, int, float, list[str]]:
    """Play an episode of the oracle, or of random valid actions."""
    observation, _ = env.reset(seed=seed, options={"split": "test"})
    total, seen = 0.0, [str(observation)]
    for turn in range(1, HORIZON + 1):
        actions = env.valid_actions()
        texts, weights = [text for text, _ in actions], [weight for _, weight in actions]
        action = chooses.choices(texts, weights)[0] if chooses else env.oracle()
        observation, reward, terminated, _, info = env.step(action)
        total += reward
        seen += [action, str(observation)]
        assert info["action_valid"]
        assert sum(info["reward_parts"].values()) == pytest.approx(reward)
        if terminated:
            return info["success"], turn, total, seen
    return False, HORIZON, total, seen


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.soak)])
def test_oracle_always_succeeds_in_about_six_turns(sandboxes: str, made: Make, count: int) -> None:
    env = made()
    played = [play(env, seed, None) for seed in range(count)]
    assert all(success for success, *_ in played)
    assert 5 <= sum(turns for _, turns, *_ in played) / count <= 7
    assert all(1.4 <= total <= 1.8 + 1e-9 for _, _, total, _ in played)


def test_random_success_is_rare_and_observations_are_short(any_sandboxes: str, made: Make) -> None:
    """Only the first observation states the task."""
    env, rng = made(), random.Random(0)
    played = [play(env, seed, rng) for seed in range(40)]
    assert 0.02 <= sum(success for success, *_ in played) / 40 <= 0.2
    for *_, seen in played:
        assert seen[0].startswith("task ")
        assert all(len(text) <= TinyCodeEnv.max_chars and len(text.split()) <= 14 for text in seen)
        assert all(set(text.split()) <= WORDS for text in seen)
        assert not any("task" in text.split() for text in seen[1:])


def test_it_holds_to_its_contract(any_sandboxes: str) -> None:
    report = check("turnwise/TinyCode-v0")
    assert report.ok, "\n".join(report.lines())


def test_replay_is_exact(sandboxes: str) -> None:
    def hashes() -> list[object]:
        env = make("turnwise/TinyCode-v0")
        rng = random.Random(2)
        observation, info = env.reset(seed=5)
        seen: list[object] = [observation_hash(env, observation), info["state_key"]]
        for _ in range(15):
            action = rng.choice([*env.valid_actions(), ("put call lamp", 1.0), ("open lamp lamp", 1.0)])[0]
            observation, reward, terminated, _, info = env.step(action)
            seen += [observation_hash(env, observation), reward, info["state_key"], info["action_valid"]]
            if terminated:
                break
        env.close()
        return seen

    assert hashes() == hashes()


def test_guessing_at_once_and_doing_nothing_fail(any_sandboxes: str, made: Make) -> None:
    env = made()
    for seed in range(5):
        env.reset(seed=seed)
        _, reward, terminated, _, info = env.step("done")
        assert (reward, terminated, info["success"]) == (-0.3, True, False)
        assert env.step("run")[:3] == ("ended", 0.0, True)


def test_unknown_family_and_split_are_refused() -> None:
    with pytest.raises(ValueError, match="choose from mix, repair, set, write"):
        TinyCodeEnv("fly")
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        TinyCodeEnv().reset(seed=0, options={"split": "dev"})
    with pytest.raises(RuntimeError, match="before its first reset"):
        TinyCodeEnv().step("run")


def test_every_other_part_fails_the_hidden_inputs() -> None:
    """The mutants of a solution of this environment are all other parts, and no two parts have the same answers."""
    answers = {tuple(OPERATIONS[call](each, int(value)) for each in HIDDEN) for call in CALLS for value in VALUES}
    assert len(answers) == len(CALLS) * len(VALUES) == 300
