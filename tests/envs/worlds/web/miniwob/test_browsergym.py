"""Twenty tasks compared with BrowserGym: the same page seed and acts give the same goal and reward.

BrowserGym runs in a separate virtual environment (``tools/browsergym.sh``), without slow_mo, which only costs time, but
with its wait before each observation, during which the page may still score.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from turnwise.benchmarks.parts.peers import Peer, pages
from turnwise.envs.worlds.web.browser_session import BrowserSession
from turnwise.envs.worlds.web.env import EpisodeStart
from turnwise.envs.worlds.web.miniwob.env import SERVER, MiniWoBEnv
from turnwise.tests.envs.worlds.web.miniwob.scripts import SCRIPTS, Act, Script

SEEDS = int(os.environ.get("TURNWISE_BROWSERGYM_SEEDS", "2"))

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("browsers")]


class BrowserGymSeeds(MiniWoBEnv):
    """MiniWoB++ with the page seeds that BrowserGym draws."""

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        return self.open_instance(int(np.random.RandomState(seed).randint(0, 1_000_000)))


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    subprocess.run(["bash", Path(__file__).parents[5] / "tools" / "browsergym.sh"], check=True)
    with pages() as url:
        made = Peer(url, "--no-slow-mo")
        yield made
        made.close()


@pytest.fixture(scope="module")
def browser(browsers: None) -> Iterator[BrowserSession]:
    made = BrowserSession([SERVER])
    yield made
    made.close()


def written(act: Act, bid: object) -> str:
    """Return an act as an action; both sides have the same verbs."""
    return f"{act.verb}('{bid}', {act.text!r})" if act.text else f"{act.verb}('{bid}')"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("task", SCRIPTS)
def test_the_same_acts_get_the_same_reward(browser: BrowserSession, peer: Peer, task: str) -> None:
    env = BrowserGymSeeds(task)
    env.browser = browser
    rewards = []
    for seed in range(SEEDS):
        seen, _ = env.reset(seed=seed)
        goal = str(seen).splitlines()[0].removeprefix("goal: ")
        there = peer.reset(task, seed)
        assert " ".join(there["goal"].split()) == " ".join(goal.split())
        script = SCRIPTS[task](goal, env.nodes, seed % 2 == 1)
        mine = played_here(env, script)
        yours = played_there(peer, script, there["nodes"])
        assert mine == yours, (task, seed, script)
        rewards.append(mine[0])
    assert min(rewards) == 0
    assert max(rewards) == 1


Ending = tuple[float, bool, list[str]]
"""The last reward, whether the episode is over, and the refused actions (on an element that another one covers)."""


def played_here(env: MiniWoBEnv, script: Script) -> Ending:
    reward, over = 0.0, False
    refused = []
    for act in script:
        if not over:
            _, reward, over, _, info = env.step(written(act, act.find(env.nodes)))
            refused += [] if info["action_valid"] else [str(act)]
    if not over:
        _, reward, over, _, _ = env.step("noop(500)")
    return reward, over, refused


def played_there(peer: Peer, script: Script, nodes: list[dict[str, object]]) -> Ending:
    """Play the script in BrowserGym."""
    reward, over = 0.0, False
    refused = []
    actions = [(act, written(act, act.find([{**node, "role": _role(node)} for node in nodes]))) for act in script]
    for act, action in actions:
        if not over:
            answer = peer.step(action)
            refused += [str(act)] if answer["error"] else []
            reward, over = answer["reward"], answer["over"]
    if not over:
        answer = peer.step("noop(500)")
        reward, over = answer["reward"], answer["over"]
    return reward, over, refused


def _role(node: dict[str, object]) -> object:
    return {"StaticText": "text"}.get(str(node["role"]), node["role"])
