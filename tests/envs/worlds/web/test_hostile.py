"""Hostile pages: each action ends in bounded time with the right message, and the next episode is clean.

CI tries a page of every kind; the soak has all.
"""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from turnwise.envs.spaces import Png, PngSpace
from turnwise.envs.worlds.computer import driver_client
from turnwise.envs.worlds.computer.env import ObservationMode
from turnwise.envs.worlds.web.browser_session import FILES, SITE_USER
from turnwise.envs.worlds.web.custom_site import FinalState, SiteTask
from turnwise.sandbox import SandboxLost
from turnwise.tests.envs.soaked import soaked_but
from turnwise.tests.envs.worlds.web.hostile_site import (
    LOST_STEP_TIMEOUT_S,
    STEP_TIMEOUT_S,
    HostileSite,
    clean,
    lose,
    number_of,
    press,
)

NO_RESPONSE = "error: the page did not respond"
# Chromium limits the memory of a page; a fast machine reaches the limit before the timeout.
NO_RESPONSE_OR_MEMORY = f"{NO_RESPONSE}|error: the page was lost: it crashed"
LOST = {
    "endless": NO_RESPONSE,
    "alerts": NO_RESPONSE,
    "memory": NO_RESPONSE_OR_MEMORY,
    "heavy": NO_RESPONSE_OR_MEMORY,
    "talks": NO_RESPONSE,
}
ALIVE = {
    "one_alert": "! a dialog was accepted (alert): 'hello'",
    "confirm": "'yes'",
    "download": "! a download was refused: 'big.bin'",
    "popup": "! a new tab was opened",
    "popups": "tab 7",
    "rewrites": "button 'press'",
    "restless": "button 'press'",
    "vanishing": "heading 'page'",
    "unload": "the other page",
    "navigates": "the other page",
    "round": "tab 0",
    "nothing": "tab 0: 'page' http://127.0.0.1:8080/nothing.html\n",
    "buffers": "button 'press'",
    "half": "'half ?'",
    "titled": "button 'press'",
    "huge": "button 'press'",
    "tall": "'the end'",
    "scroller": "'pressed'",
    "picture": "'seen'",
    "disabled": "error: element 2: it is disabled",
    "shadow": "'pressed'",
    "replaced": "'pressed'",
}
IN_CI = (
    "one_alert",
    "download",
    "popups",
    "rewrites",
    "unload",
    "navigates",
    "nothing",
    "disabled",
    "shadow",
)
NUMBER = re.compile(r"\[(\d+)\]")

pytestmark = pytest.mark.usefixtures("browsers")


@pytest.mark.parametrize("at", soaked_but(("endless", "alerts", "memory"), LOST))
def test_a_page_that_does_not_respond_is_replaced(site: HostileSite, at: str) -> None:
    """The new browser reuses no number of an element."""
    # A heavy page is lost because of its size, after the time in which any page may load.
    after, seconds = (press if at == "heavy" else lose)(site, at)
    assert seconds < STEP_TIMEOUT_S + 15
    assert re.search(LOST[at], after), after
    assert site.browser.sandbox, "the browser did not start again, so the sandbox was released"
    assert "about:blank" in str(site.step("noop(1)")[0])
    again = NUMBER.findall(str(site.step('goto("http://127.0.0.1:8080/harmless.html")')[0]))
    assert again
    assert not {*NUMBER.findall(site.first)} & {*again}
    assert site.step('send_msg_to_user("right")')[4]["success"]
    clean(site)


@pytest.mark.parametrize("at", soaked_but(IN_CI, ALIVE))
def test_a_troublesome_page_stays_usable(site: HostileSite, at: str) -> None:
    after, seconds = press(site, at)
    assert ALIVE[at] in after
    assert seconds < 2 * STEP_TIMEOUT_S + 3
    clean(site)


def test_go_back_works_within_a_document(site: HostileSite) -> None:
    site.at = "titled"
    seen, _ = site.reset(seed=1)
    site.step(f"click({number_of(seen, 'button')})")
    after, _, _, _, info = site.step("go_back()")
    assert info["action_valid"]
    assert "titled.html\n" in str(after)
    assert not site.step("go_back()")[4]["action_valid"]


def test_a_long_text_is_inserted_in_one_piece(site: HostileSite) -> None:
    site.at = "field"
    seen, _ = site.reset(seed=1)
    site.step(f"click({number_of(seen, 'textbox')})")
    after, _, _, _, info = site.step(f"keyboard_type({'a' * 7900!r})")
    assert info["action_valid"]
    assert "a" * 1000 in str(after)


SCROLLS = ('scroll("down")', 'press("PageDown")', 'press("End")', 'press("Space")')


@pytest.mark.parametrize("action", soaked_but(SCROLLS[:1], SCROLLS))
def test_scrolling_is_observed_at_its_end(site: HostileSite, action: str) -> None:
    site.at = "lines"
    for _ in range(2):
        site.reset(seed=1)
        after = str(site.step(action)[0])
        assert after == str(site.step("noop(400)")[0])
        assert "text 'line 0' (out of view)" in after


def test_the_selection_is_not_pasted_in_the_next_episode(site: HostileSite) -> None:
    site.at = "field"
    seen, _ = site.reset(seed=1)
    field = number_of(seen, "textbox")
    site.step(f'fill({field}, "remembered")')
    site.step(f"dblclick({field})")
    seen, _ = site.reset(seed=1)
    after = str(site.step(f'click({field}, button="middle")')[0])
    assert "textbox" in after
    assert "remembered" not in after


def test_unreadable_files_at_the_end_fail_the_episode_without_a_check(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    assert site.browser.sandbox
    site.browser.sandbox.exec(["mv", FILES, f"{FILES}-elsewhere"], timeout_s=5, user=SITE_USER)
    _, reward, over, _, info = site.step('send_msg_to_user("right")')
    assert (reward, over, info["success"]) == (0.0, True, False)
    clean(site)


def test_the_size_of_a_site_is_limited(site: HostileSite) -> None:
    class Large(HostileSite):
        size = 20

        def task(self, seed: int, split: str) -> SiteTask:
            task = super().task(seed, split)
            return replace(task, files={**task.files, "large.bin": bytes(self.size << 20)})

        def check(self, final: FinalState) -> bool:
            return len(final.files["large.bin"]) == self.size << 20

    large = Large()
    large.browser = site.browser
    large.reset(seed=1)
    assert large.step('send_msg_to_user("")')[4]["success"]
    large.size = 40
    with pytest.raises(ValueError, match="the limit is 32 MiB"):
        large.reset(seed=1)


@pytest.mark.parametrize(
    ("at", "actions"),
    [
        ("button", ["click({})"]),
        pytest.param("textbox", ["click({})", f"keyboard_type({'a' * 400!r})"], marks=pytest.mark.soak),
        pytest.param("textbox", ["fill({}, 'text')"], marks=pytest.mark.soak),
        pytest.param("searchbox", ["press({}, 'Enter')"], marks=pytest.mark.soak),
        pytest.param("link", ["drag_and_drop({0}, {0})"], marks=pytest.mark.soak),
    ],
)
def test_the_last_tab_that_closes_itself_is_replaced(site: HostileSite, at: str, actions: list[str]) -> None:
    press(site, "orphan")
    site.step("tab_close(0)")
    after = str(site.step("noop(1)")[0])
    number = number_of(after, at)
    for action in actions:
        seen, _, _, _, info = site.step(action.format(number))
        after = str(seen)
    assert "! the last tab was closed; an empty one was opened" in after
    assert "about:blank" in after
    assert info["action_valid"]
    clean(site)


@pytest.mark.parametrize(
    ("observation", "times"),
    [
        pytest.param("text", 2, marks=pytest.mark.soak),
        ("both", 2),
        pytest.param("text", 24, marks=pytest.mark.soak),
        pytest.param("both", 24, marks=pytest.mark.soak),
    ],
)
def test_a_tab_that_closes_itself_keeps_other_tabs_and_cookies(
    site: HostileSite, observation: ObservationMode, times: int
) -> None:
    # The tab closes anywhere between the click and the last observation: repeat.
    seeing = HostileSite("basket", observation=observation)
    seeing.browser = site.browser
    for _ in range(times):
        seen, _ = seeing.reset(seed=1)
        seen = seeing.step(f"click({number_of(seen, 'button')})")[0]
        seen = seeing.step(f"click({number_of(seen, 'button')})")[0]
        assert "lost" not in str(seen)
        seen = seeing.step('goto("http://127.0.0.1:8080/buys.html")')[0]
        assert "basket=3" in str(seen)
    clean(site)


@pytest.mark.parametrize(
    ("at", "opened", "address"),
    [pytest.param("opens", "watches", "late", id="requested"), pytest.param("closer", "other", "long", id="in view")],
)
def test_goto_opens_in_the_next_tab_when_its_tab_is_closed(
    site: HostileSite, at: str, opened: str, address: str
) -> None:
    site.at = at
    seen, _ = site.reset(seed=1)
    seen = site.step(f"click({number_of(seen, 'button')})")[0]
    assert f"{opened}.html" in str(seen)
    seen, _, _, _, info = site.step(f'goto("http://127.0.0.1:8080/{address}/")')
    assert "request 2" in str(seen)
    assert info["action_valid"]
    clean(site)


def test_goto_a_page_that_closes_its_tab_leaves_the_other_tab_as_it_is(site: HostileSite) -> None:
    site.at = "popup"
    seen, _ = site.reset(seed=1)
    seen = site.step(f"click({number_of(seen, 'button')})")[0]
    assert "other.html" in str(seen)
    seen, _, _, _, info = site.step('goto("http://127.0.0.1:8080/done.html")')
    assert "tab 0: 'page' http://127.0.0.1:8080/popup.html" in str(seen)
    assert "done.html" not in str(seen)
    assert info["action_valid"]
    clean(site)


@pytest.mark.parametrize(
    "action", ["click({})", 'goto("http://127.0.0.1:8080/slow")', 'goto("http://127.0.0.1:8080/endless/")']
)
def test_a_page_that_never_comes_or_never_ends_is_a_failure_of_the_world(
    site: HostileSite, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An observation would show that a limit on time expired, and on a quieter machine another page."""
    monkeypatch.setattr(driver_client, "STEP_TIMEOUT_S", LOST_STEP_TIMEOUT_S)
    site.at = "waiting"
    seen, _ = site.reset(seed=1)
    with pytest.raises(SandboxLost, match="the page did not respond"):
        site.step(action.format(number_of(seen, "link")))
    clean(site)


def test_a_kept_page_that_navigated_away_is_not_reused(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    begin = {"do": "open", "url": "http://127.0.0.1:8080/leaves.html", "reusable": True, "width": 640, "height": 480}
    look = {"do": "observe", "tree": True, "screenshot": False}
    shown, _ = site.browser.open([begin, look])
    (button,) = [node for node in shown["nodes"] if node["role"] == "button"]
    site.browser.do([{"do": "act", "action": {"verb": "click", "id": button["id"], "button": "left"}}, look])
    site.browser.open([{**begin, "url": "http://127.0.0.1:8080/harmless.html", "reusable": False}, look])
    time.sleep(1.0)
    again, _ = site.browser.open([begin, look])
    assert again["tabs"][0][0].endswith("/leaves.html")


@pytest.mark.parametrize("at", ["small", "full"])
def test_a_page_does_not_change_the_size_of_screenshots(site: HostileSite, at: str) -> None:
    seeing = HostileSite(at, observation="both")
    seeing.browser = site.browser
    seen, _ = seeing.reset(seed=1)
    assert seeing.step(f"click({number_of(seen, 'button')})")[0] in seeing.observation_space
    assert seeing.step("noop(100)")[0] in seeing.observation_space


@pytest.mark.parametrize("png", [b"", b"not a picture", Png.encode(np.zeros((5, 5, 3), np.uint8))])
def test_a_picture_of_a_foreign_browser_is_black(png: bytes) -> None:
    assert HostileSite(observation="both")._image(png) in PngSpace(640, 480)


def test_an_unknown_key_is_refused(site: HostileSite) -> None:
    site.at = "field"
    site.reset(seed=1)
    keys = ("SyntaxError", "x: expected y", "is not a function")
    for action in (text for key in keys for text in (f'press("{key}")', f'press(2, "{key}")')):
        seen, _, over, _, info = site.step(action)
        assert "Unknown key" in str(seen)
        assert not over
        assert not info["action_valid"]


def test_an_action_of_playwright_ends_when_its_navigation_fails(site: HostileSite) -> None:
    site.at = "nothing"
    seen, _ = site.reset(seed=0)
    assert site.step(f'press({number_of(seen, "link")}, "Enter")')[4]["action_valid"]


def test_page_text_does_not_pose_as_the_environment(site: HostileSite) -> None:
    after, _ = press(site, "impostor")
    assert not [line for line in after.splitlines() if line.startswith(("!", "error", "[1] button"))]


def test_goto_stays_on_the_site(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    for url in ("file:///etc/passwd", "javascript:document.title='won'", "http://169.254.169.254/", "about:blank"):
        after, _, _, _, info = site.step(f'goto("{url}")')
        assert not info["action_valid"]
        assert "'page' http://127.0.0.1:8080/harmless.html" in str(after)


def test_an_episode_does_not_affect_the_next(site: HostileSite) -> None:
    site.at = "harmless"
    first = site.reset(seed=1)[0]
    site.step('goto("http://127.0.0.1:8080/other.html")')
    site.step("new_tab()")
    assert site.reset(seed=1)[0] == first


def test_the_clipboard_is_empty_in_the_next_episode(site: HostileSite) -> None:
    site.at = "field"
    seen, _ = site.reset(seed=1)
    field = number_of(seen, "textbox")
    for action in (f'press({field}, "Control+a")', f'press({field}, "Control+c")', f'fill({field}, "")'):
        site.step(action)
    assert "value='secret'" in str(site.step(f'press({field}, "Control+v")')[0])
    seen, _ = site.reset(seed=2)
    field = number_of(seen, "textbox")
    site.step(f'fill({field}, "")')
    assert "secret" not in str(site.step(f'press({field}, "Control+v")')[0])
