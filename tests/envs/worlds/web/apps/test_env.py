"""The apps in a real browser: the oracle succeeds and near misses fail."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from turnwise.envs.worlds.web.apps import env as apps_env
from turnwise.envs.worlds.web.apps.env import WebAppsEnv, as_action
from turnwise.envs.worlds.web.apps.tasks import TEMPLATES
from turnwise.envs.worlds.web.browser_session import BrowserSession

SEEDS = int(os.environ.get("TURNWISE_BROWSED_SEEDS", "1"))
EVERY = int(os.environ.get("TURNWISE_BROWSED_EVERY", "18"))
"""One template in this many is tested; in CI, one that changes the site, on each site."""

pytestmark = pytest.mark.usefixtures("browsers")


@pytest.fixture(scope="module")
def env(browser: BrowserSession) -> WebAppsEnv:
    made = WebAppsEnv(template="shop/checkout")
    made.browser = browser
    return made


def solved(env: WebAppsEnv, seed: int) -> tuple[list[str], list[str]]:
    """Return the actions of the oracle, which must succeed, and the observations."""
    seen, actions = [str(env.reset(seed=seed)[0])], list[str]()
    over = False
    while not over:
        actions.append(env.oracle())
        observation, reward, over, _, info = env.step(actions[-1])
        seen.append(str(observation))
        assert info["action_valid"], observation
    assert (reward, info["success"]) == (1.0, True), seen[-1]
    return actions, seen


@pytest.mark.soak
def test_the_oracle_succeeds_on_a_busy_machine(env: WebAppsEnv) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for number in (0, 2):
            env.choice = replace(env.choice, template=list(TEMPLATES)[13 * number])
            solved(env, number)
    finally:
        for one in busy:
            one.kill()
            one.wait()


@pytest.mark.parametrize("template", list(TEMPLATES)[EVERY // 2 :: EVERY])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_oracle_succeeds_the_same_way_twice_and_a_near_miss_fails(
    env: WebAppsEnv, template: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.choice = replace(env.choice, template=template)
    actions, seen = solved(env, seed)
    assert env.reset(seed=seed)[0] == seen[0]
    with monkeypatch.context() as patched:
        patched.delattr(apps_env, "as_action")
        # Steps compute no action of the oracle, which follows them when it is called.
        again = [str(env.step(action)[0]) for action in actions[:-1]]
    assert env.oracle() == actions[-1]
    observation, reward, _, _, _ = env.step(actions[-1])
    assert ([seen[0], *again, str(observation)], reward) == (seen, 1.0)
    env.reset(seed=seed)
    over = False
    for act in env.app_task.near_misses[seed % len(env.app_task.near_misses)]:
        last, reward, over, _, info = env.step(as_action(act, env.nodes))
    if not over:
        last, reward, over, _, info = env.step('send_msg_to_user("")')
    assert (reward, info["success"]) == (0.0, False), last
    with pytest.raises(LookupError, match="another action was taken"):
        env.oracle()
