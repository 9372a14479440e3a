"""A page that is reset in place displays and scores an episode like a page that was just opened.

Two environments play the same episodes of the tasks in ``IN_PLACE`` with the same actions, one in a new tab each,
one on a page that stays; every observation, screenshot and reward must be equal.
"""

import os
import random
from dataclasses import replace

import pytest
from turnwise.envs.worlds.computer.elements import in_viewport
from turnwise.envs.worlds.computer.env import ObservationMode
from turnwise.envs.worlds.web.browser_session import BrowserSession
from turnwise.envs.worlds.web.env import BrowserEnv, EpisodeStart
from turnwise.envs.worlds.web.miniwob import IN_PLACE, LATE_ICONS
from turnwise.envs.worlds.web.miniwob.env import MiniWoBEnv

EVERY = int(os.environ.get("TURNWISE_MINIWOB_EVERY", "45"))
EPISODES = int(os.environ.get("TURNWISE_IN_PLACE_EPISODES", "3"))
ACTS = 3
LAST = ("Tab", "Shift+Tab", "Control+a", "Control+End", "Control+v", "Control+z", "Control+Shift+z", "Enter")
"""Keys that reveal focus, selection, clipboard and undo history of an earlier episode; no page is reused after one."""
CLICKED = ("button", "link", "clickable", "radio", "checkbox", "tab", "textbox", "option", "menuitem", "listitem")


class Fresh(MiniWoBEnv):
    """MiniWoB++ with a new tab in an empty context for each episode."""

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        return replace(super().start_episode(seed, split), reusable=False)


def last(env: BrowserEnv, rng: random.Random) -> str:
    """Return the last action of an episode, which reveals what earlier ones left behind."""
    fields = [node["id"] for node in env.nodes if node["role"] == "textbox" and in_viewport(node)]
    undone = [f'press({rng.choice(fields)}, "Control+{key}")' for key in ("z", "Shift+z")] if fields else []
    return rng.choice([*undone, *(f'press("{key}")' for key in LAST), 'keyboard_type("hello")', 'scroll("down")'])


def drawn(env: BrowserEnv, rng: random.Random) -> str:
    """Return a random action that the page probably reacts to."""
    nodes = [node for node in env.nodes if node["role"] in CLICKED and in_viewport(node)]
    if not nodes:
        return "noop(1)"
    chosen = rng.choice(nodes)
    if chosen["role"] == "textbox" and rng.random() < 0.5:
        return f'fill({chosen["id"]}, "word")'
    return f"click({chosen['id']})"


Played = list[tuple[str, bytes, float, bool]]


def played(env: BrowserEnv, seed: int) -> Played:
    """Play an episode and return its observations and rewards."""
    rng = random.Random(seed)
    seen, _ = env.reset(seed=seed)
    out: Played = []
    reward, over = 0.0, False
    for _ in range(ACTS + 1):
        text, image = (seen["text"], seen["image"]) if isinstance(seen, dict) else (str(seen), b"")
        out.append((text, bytes(image), reward, over))
        if over:
            break
        seen, reward, over, _, _ = env.step(last(env, rng) if len(out) == ACTS and seed % 2 else drawn(env, rng))
    return out


@pytest.mark.parametrize("name", sorted(IN_PLACE | LATE_ICONS)[::EVERY])
def test_a_reset_page_equals_a_new_page(browser: BrowserSession, name: str) -> None:
    observation: ObservationMode = "both" if name in IN_PLACE else "text"
    fresh, kept = Fresh(name, observation), MiniWoBEnv(name, observation)
    fresh.browser = kept.browser = browser
    there = [played(kept, seed) for seed in range(EPISODES)]
    for seed in range(EPISODES):
        assert there[seed] == played(fresh, seed), (name, seed)
