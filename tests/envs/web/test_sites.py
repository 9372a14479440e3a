"""The sites in a real browser: what solves a task in it succeeds, and nothing else does."""

import os
from collections.abc import Iterator

import pytest
from turnwise.envs.web.sites.env import SitesEnv, written
from turnwise.envs.web.sites.templates import TEMPLATES

SEEDS = int(os.environ.get("TURNWISE_BROWSED_SEEDS", "1"))
EVERY = int(os.environ.get("TURNWISE_BROWSED_EVERY", "6"))
"""One template in so many is tried."""

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("browsers")]


@pytest.fixture(scope="module")
def env(browsers: None) -> Iterator[SitesEnv]:
    made = SitesEnv(template="shop/checkout")
    yield made
    made.close()


@pytest.mark.parametrize("template", list(TEMPLATES)[::EVERY])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_oracle_succeeds_and_a_near_miss_fails(env: SitesEnv, template: str, seed: int) -> None:
    env._template = template
    env.reset(seed=seed)
    hashes = []
    over = False
    while not over:
        seen, reward, over, _, info = env.step(env.oracle())
        hashes.append(seen)
        assert info["step_valid"], seen
    assert (reward, info["success"]) == (1.0, True)

    env.reset(seed=seed)
    for act in env.playing.misses[0]:
        seen, reward, over, _, info = env.step(written(act, env.nodes))
    if not over:
        seen, reward, over, _, info = env.step('answer("")')
    assert (reward, info["success"]) == (0.0, False)


def test_the_same_seed_looks_the_same_twice(env: SitesEnv) -> None:
    env._template = "tracker/assignee" if "tracker/assignee" in TEMPLATES else next(iter(TEMPLATES))
    runs = []
    for _ in range(2):
        seen = [env.reset(seed=7)[0]]
        over = False
        while not over:
            observation, _, over, _, _ = env.step(env.oracle())
            seen.append(observation)
        runs.append(seen)
    assert runs[0] == runs[1]
