"""``turnwise/TextSite-v0`` behaves as its docstring states: the reward of each policy, and the limits of the world."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnwise.envs import make
from turnwise.envs.errors import EnvironmentFailed
from turnwise.envs.runner.observations import observation_hash
from turnwise.envs.runner.once import enumerated_seeds
from turnwise.envs.worlds.tiny.text import FAMILIES, VOCABULARY, Site, TextSiteEnv, draw

Policy = Callable[[TextSiteEnv], str]
WORDS = frozenset(VOCABULARY)


def episode(
    env: TextSiteEnv, seed: int, policy: Policy, horizon: int = 12, split: str = "test"
) -> tuple[bool, int, float]:
    env.reset(seed=seed, options={"split": split})
    total = 0.0
    for turn in range(1, horizon + 1):
        _, reward, terminated, _, info = env.step(policy(env))
        total += reward
        if terminated:
            return info["success"], turn, total
    return False, horizon, total


def rate(policy: Policy, family: str = "mix", horizon: int = 12, tasks: int = 200) -> float:
    env = TextSiteEnv(family)
    return sum(episode(env, seed, policy, horizon)[0] for seed in range(tasks)) / tasks


def uniform(seed: int = 0) -> Policy:
    rng = random.Random(seed)

    def choose(env: TextSiteEnv) -> str:
        actions = env.valid_actions()
        return rng.choices([action for action, _ in actions], [weight for _, weight in actions])[0]

    return choose


def oracle(env: TextSiteEnv) -> str:
    return env.oracle()


def first_page(env: TextSiteEnv) -> str:
    """A policy that answers the first number in the observation."""
    answers = [action for action, _ in env.valid_actions() if action.startswith("answer")]
    return answers[0] if answers else env.valid_actions()[0][0]


@pytest.mark.parametrize("seed", range(3))
def test_uniform_random_is_at_most_a_fifth(seed: int) -> None:
    assert rate(uniform(seed)) <= 0.2


def test_oracle_always_succeeds_in_about_four_turns() -> None:
    env = TextSiteEnv()
    played = [episode(env, seed, oracle) for seed in range(200)]
    assert all(success for success, _, _ in played)
    assert 3.8 <= sum(turns for _, turns, _ in played) / 200 <= 4.8
    assert max(turns for _, turns, _ in played) > 8


def test_answering_the_first_page_is_at_most_half() -> None:
    assert rate(first_page, "find") <= 0.5


@pytest.mark.parametrize("family", ["find", "login"])
def test_a_longer_horizon_helps(family: str) -> None:
    by_horizon = [rate(oracle, family, horizon) for horizon in (2, 4, 8, 12)]
    assert by_horizon == sorted(by_horizon)
    assert by_horizon[1] <= 0.6
    assert by_horizon[-1] == 1.0


def test_oracle_recovers_from_any_state() -> None:
    env = TextSiteEnv()
    stray = uniform(1)
    for seed in range(300):
        env.reset(seed=seed)
        over = False
        for _ in range(5):
            action = stray(env)
            if not over and not action.startswith(("answer", "done")):
                over = env.step(action)[2]
        for _ in range(14):
            _, _, terminated, _, info = env.step(env.oracle())
            if terminated:
                break
        assert info["success"]


def test_each_reward_is_paid_once() -> None:
    env = TextSiteEnv("login")
    env.reset(seed=5)
    site = env.episode.site
    user, password = site.secrets
    other = next(link for link in site.links if link != site.target)
    actions = [
        f"click {site.target}",
        f"fill user {password}",
        f"fill user {user}",
        f"fill user {user}",
        "click submit",
    ]
    actions += [f"fill password {password}", "back", f"click {other}", "click submit", "back"]
    actions += [f"click {site.target}", "back", f"click {site.target}", "done"]
    rewards = [env.step(action)[1] for action in actions]
    assert rewards == pytest.approx([0, 0, 0.2, -0.05, -0.05, 0.2, 0, 0, 0.2, 0, 0.2, 0, 0, 1.0])


@pytest.mark.parametrize(("family", "action"), [("find", "done"), ("open", "answer 20"), ("login", "done")])
def test_a_wrong_end_costs(family: str, action: str) -> None:
    env = TextSiteEnv(family)
    env.reset(seed=1)
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["success"]) == (-0.3, True, False, False)
    assert info["action_valid"]


def combination(site: Site) -> object:
    if site.family == "find":
        return site.item, site.prices[site.links.index(site.target)]
    return site.secrets if site.family == "login" else (site.target, frozenset(site.links))


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_instance(family: str) -> None:
    train = {draw(seed, "train", family) for seed in range(3000)}
    test = {draw(seed, "test", family) for seed in range(500)}

    assert not {combination(site) for site in train} & {combination(site) for site in test}
    assert len(test) > 300


def test_families_are_balanced() -> None:
    counts = [sum(draw(seed, "test", "mix").family == family for seed in range(600)) for family in FAMILIES]
    assert min(counts) > 150


def test_unknown_family_and_split_are_refused() -> None:
    with pytest.raises(ValueError, match="choose from mix, find, login, open"):
        TextSiteEnv("fly")
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        TextSiteEnv().reset(seed=0, options={"split": "dev"})
    with pytest.raises(RuntimeError, match="before its first reset"):
        TextSiteEnv().step("back")


def test_a_finished_episode_stays_finished() -> None:
    env = TextSiteEnv("open")
    env.reset(seed=0)
    env.step("done")
    observation, reward, terminated, _, info = env.step("done")
    assert (observation, reward, terminated, info["action_valid"]) == ("ended", 0.0, True, False)


def test_only_the_first_observation_states_the_task() -> None:
    env = TextSiteEnv()
    lengths = []
    for seed in range(300):
        first, _ = env.reset(seed=seed)
        assert isinstance(first, str)
        assert first.startswith("task ")
        for _ in range(8):
            observation, _, terminated, _, _ = env.step(uniform(seed)(env))
            assert isinstance(observation, str)
            assert not {"task", "as", "of"} & set(observation.split())
            lengths.append(len(observation.split()))
            if terminated:
                break
        assert len(first.split()) <= 25
    assert max(lengths) <= 12


action_texts = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join),
    st.builds("{} {}".format, st.sampled_from(["click", "answer"]), st.sampled_from(VOCABULARY)),
    st.builds("fill {} {}".format, st.sampled_from(["user", "password"]), st.sampled_from(VOCABULARY)),
)
seeds = st.integers(0, 2**32)
families = st.sampled_from(["mix", *FAMILIES])


@settings(max_examples=150, deadline=None)
@given(seed=seeds, family=families, actions=st.lists(action_texts, max_size=12))
def test_never_raises_and_stays_within_its_words(seed: int, family: str, actions: list[str]) -> None:
    env = TextSiteEnv(family)
    observation, _ = env.reset(seed=seed)
    earned = 0.0
    for action in [None, *actions]:
        if action is not None:
            observation, reward, terminated, truncated, info = env.step(action)
            earned += max(reward, 0.0)
            assert not truncated
            assert sum(info["reward_parts"].values()) == pytest.approx(reward)
            assert info["success"] <= terminated
        assert isinstance(observation, str)
        assert len(observation) <= TextSiteEnv.max_chars
        assert observation in env.observation_space
        assert WORDS.issuperset(observation.split())
        for valid, weight in env.valid_actions():
            assert weight > 0
            assert WORDS.issuperset(valid.split())
        assert WORDS.issuperset(env.oracle().split())
    assert earned <= 1.8 + 1e-9


@settings(max_examples=60, deadline=None)
@given(seed=seeds, actions=st.lists(action_texts, max_size=12), split=st.sampled_from(["train", "test"]))
def test_replay_is_exact(seed: int, actions: list[str], split: str) -> None:
    def play() -> list[object]:
        env = make("turnwise/TextSite-v0")
        observation, info = env.reset(seed=seed, options={"split": split})
        seen: list[object] = [observation_hash(env, observation), info]
        for action in actions:
            observation, *rest = env.step(action)
            seen.append((observation_hash(env, observation), *rest))
        return seen

    assert play() == play()


@settings(max_examples=100, deadline=None)
@given(seed=seeds, choices=st.lists(st.floats(0, 1, exclude_max=True), max_size=12))
def test_every_valid_action_is_valid(seed: int, choices: list[float]) -> None:
    env = TextSiteEnv()
    env.reset(seed=seed)
    for choice in choices:
        actions = env.valid_actions()
        _, _, terminated, _, info = env.step(actions[int(choice * len(actions))][0])
        assert info["action_valid"]
        if terminated:
            return


def test_a_pool_enumerates_its_tasks() -> None:
    assert enumerated_seeds("turnwise/TextSite-v0", {}) is None
    assert enumerated_seeds("turnwise/TextSite-v0", {"pool_size": 3}) == (0, 1, 2)
    assert enumerated_seeds("turnwise/TextSite-v0", {"pool_size": 3}, "test") is None
    with pytest.raises(EnvironmentFailed, match="`pool_size` of `turnwise/TextSite-v0` is -1"):
        enumerated_seeds("turnwise/TextSite-v0", {"pool_size": -1})


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    family=st.sampled_from(("mix", *FAMILIES)),
    before=st.integers(0, 8),
    choices=st.lists(st.integers(0, 99), min_size=1, max_size=10),
    other=st.integers(0, 2**31 - 1),
)
def test_a_restored_environment_continues_as_the_original(
    seed: int, family: str, before: int, choices: list[int], other: int
) -> None:
    """``other`` is an episode that the restored environment played before; the snapshot is restored twice."""
    original, restored = TextSiteEnv(family), TextSiteEnv(family)
    original.reset(seed=seed)
    rng = random.Random(seed)
    for _ in range(before):
        original.step(rng.choice([*(action for action, _ in original.valid_actions()), "nonsense"]))
    snapshot = original.snapshot()
    restored.reset(seed=other)
    for _ in range(2):
        restored.restore(snapshot)
        assert (restored.snapshot(), restored.oracle()) == (snapshot, original.oracle())
        for choice in choices:
            actions = [*(action for action, _ in restored.valid_actions()), "nonsense"]
            restored.step(actions[choice % len(actions)])
    restored.restore(snapshot)
    for choice in choices:
        actions = [*(action for action, _ in original.valid_actions()), "nonsense"]
        action = actions[choice % len(actions)]
        assert restored.step(action) == original.step(action)
