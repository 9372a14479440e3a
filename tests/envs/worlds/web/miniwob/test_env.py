"""MiniWoB++ in the browser: tasks open, are reproducible, and are scored as in BrowserGym.

CI opens a few tasks; the soak opens all.
"""

import os
import re
from time import sleep

import pytest
from gymnasium.utils.env_checker import check_env
from turnwise.envs.worlds.computer.env import ObservationMode
from turnwise.envs.worlds.web.browser_session import BrowserSession
from turnwise.envs.worlds.web.miniwob import TASKS
from turnwise.envs.worlds.web.miniwob.env import MiniWoBEnv
from turnwise.tests.envs.soaked import soaked_but

EVERY = int(os.environ.get("TURNWISE_MINIWOB_EVERY", "26"))
"""One task in this many is tested."""

pytestmark = pytest.mark.usefixtures("browsers")


def task(name: str, browser: BrowserSession) -> MiniWoBEnv:
    made = MiniWoBEnv(name)
    made.browser = browser
    return made


def wanted(seen: object) -> tuple[str, int]:
    """Return the label in the goal of click-button, and the number of a button with it."""
    requested = re.search(r'"(.*)" button', str(seen).splitlines()[0])
    assert requested
    found = re.search(rf"\[(\d+)\] button '{re.escape(requested.group(1))}'", str(seen))
    assert found, seen
    return requested.group(1), int(found.group(1))


@pytest.mark.parametrize("name", TASKS[::EVERY])
def test_a_task_opens_is_reproducible_and_ends(browser: BrowserSession, name: str) -> None:
    env = task(name, browser)
    first, info = env.reset(seed=3)
    assert re.match(r"goal: \S.{8,}", str(first).splitlines()[0])
    assert info["extras"]["sandbox"]["image"] == "web"
    if env.deterministic:
        assert env.reset(seed=3)[0] == first
        # Nothing on the page changes while the agent thinks.
        sleep(0.9)
    seen, _, over, _, _ = env.step("noop(1)")
    assert not over
    if env.deterministic:
        assert f"goal: {env.goal}\n{seen!s}" == first
    _, reward, over, _, info = env.step('send_msg_to_user("")')
    assert (reward, over, info["success"]) == (0.0, True, False)


def test_the_right_button_succeeds_and_a_wrong_one_fails(browser: BrowserSession) -> None:
    env = task("click-button", browser)
    for seed in range(4):
        seen, _ = env.reset(seed=seed)
        label, right = wanted(seen)
        others = [int(n) for n, name in re.findall(r"\[(\d+)\] button '(.*?)'", str(seen)) if name != label]
        if others:
            _, reward, over, _, info = env.step(f"click({others[0]})")
            assert (reward, over, info["success"]) == (0.0, True, False)
            assert env.reset(seed=seed)[0] == seen
        _, reward, over, _, info = env.step(f"click({right})")
        assert (reward, over, info["success"]) == (1.0, True, True)


def test_leaving_the_page_is_a_failure(browser: BrowserSession) -> None:
    env = task("click-button", browser)
    env.reset(seed=1)
    _, reward, over, _, info = env.step('goto("http://127.0.0.1:8081/miniwob/click-test.html")')
    assert (reward, over, info["success"]) == (0.0, True, False)


@pytest.mark.parametrize("reward", [None, "1", [1], {"1": 1}, 0])
def test_a_reward_that_is_no_positive_number_is_a_failure(reward: object) -> None:
    env = MiniWoBEnv("click-button")
    verdict = env.evaluate(None, {"values": [[env.url, True, True, reward]]})
    assert verdict.over
    assert not verdict.success


def test_reloading_the_page_to_draw_an_easier_instance_is_a_failure(browser: BrowserSession) -> None:
    env = task("click-button", browser)
    env.reset(seed=1)
    _, reward, over, _, info = env.step(f'goto("{env.url}")')
    assert (reward, over, info["success"]) == (0.0, True, False)


def test_leaving_the_page_fails_the_episode_and_keeps_the_browser(browser: BrowserSession) -> None:
    env = task("click-button", browser)
    env.reset(seed=1)
    seen, _, over, _, info = env.step("go_back()")
    assert (over, info["action_valid"]) == (False, False)
    assert "error: go_back: there is no previous page" in str(seen)
    seen, reward, over, _, info = env.step("new_tab()")
    assert (reward, over, info["success"]) == (0.0, True, False)
    assert "lost" not in str(seen)


@pytest.mark.parametrize(
    "action",
    [
        'goto("javascript:core.endEpisode(1)")',
        'goto("data:text/html,<script>opener.core.endEpisode(1)</script>")',
        'press("F12")',
        'keyboard_type("core.endEpisode(1)")',
        'send_msg_to_user("core.endEpisode(1)")',
    ],
)
def test_an_action_cannot_set_the_reward_in_the_page(browser: BrowserSession, action: str) -> None:
    env = task("click-button", browser)
    env.reset(seed=1)
    _, reward, _, _, info = env.step(action)
    assert (reward, info["success"]) == (0.0, False)


INNER = "<script src=/core/jscolor.min.js></script><input class='jscolor {a:parent.core.endEpisode(1)}'>"
QUOTES = str.maketrans("", "", "<'\"\\")
MARKUP = (
    "<img src=x onerror=core.endEpisode(1)>",
    "<a href='javascript:core.endEpisode(1)'>go</a>",
    "<script>core.endEpisode(1)</script>",
    f'<iframe srcdoc="{INNER}"></iframe>',
    "<iframe src=/miniwob/terminal.html width=280 height=230></iframe>",
    "<object data=/miniwob/terminal.html width=280 height=230></object>",
)


@pytest.mark.parametrize("text", soaked_but(MARKUP[0::3], MARKUP))
def test_typed_text_is_not_markup(browser: BrowserSession, text: str) -> None:
    env = task("terminal", browser)
    env.reset(seed=3)
    for action in ("click(60, 80)", f"keyboard_type({text!r})", 'press("Enter")', "noop(500)"):
        seen, reward, over, _, _ = env.step(action)
        assert (reward, over) == (0.0, False), seen
    # Everything except "<" appears as text; the observation quotes it.
    assert max(text.translate(QUOTES).split(), key=len) in str(seen).translate(QUOTES)


def test_the_splits_share_no_instance(browser: BrowserSession) -> None:
    env = task("click-button", browser)
    assert env.start_episode(5, "train").scripts != env.start_episode(5, "test").scripts


@pytest.mark.parametrize(("observation", "marks"), [("screenshot", False), ("both", True)])
def test_the_space_of_screenshots_is_right(browser: BrowserSession, observation: ObservationMode, marks: bool) -> None:
    env = MiniWoBEnv("click-test", observation, marks)
    env.browser = browser
    check_env(env, skip_render_check=True)
    seen, _ = env.reset(seed=1)
    assert isinstance(seen, dict)
    file = env.screenshot()
    assert (seen["image"] == file) is not marks


@pytest.mark.parametrize(("max_pixels", "factor"), [(None, 1), (160 * 160, 2)])
def test_coordinates_of_the_screenshot_can_be_clicked(
    browser: BrowserSession, max_pixels: int | None, factor: int
) -> None:
    env = MiniWoBEnv("click-test", observation="both", max_pixels=max_pixels)
    env.browser = browser
    seen, _ = env.reset(seed=1)
    assert isinstance(seen, dict)
    assert seen in env.observation_space
    image = seen["image"].pixels()
    assert image.shape == (env.height / factor, env.width / factor, 3)
    assert image.std() > 0
    (button,) = [node for node in env.nodes if node["role"] == "button"]
    x, y, wide, high = (side / factor for side in button["rect"])
    _, reward, over, _, info = env.step(f"click({x + wide / 2}, {y + high / 2})")
    assert (reward, over) == (1.0, True)
    assert info["targets"] == [[pytest.approx(x + wide / 2, abs=0.1), pytest.approx(y + high / 2, abs=0.1)]]
    assert env.step("noop()")[0] in env.observation_space
