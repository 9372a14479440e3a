"""Hostile applications are outcomes in bounded time, and the next episode is clean."""

from collections.abc import Iterator
from time import monotonic

import pytest
from turnwise.envs.worlds.computer import driver_client
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.tests.envs.worlds.desktop.playing import Played

MAX_STEP_S = 30
SHORT_STEP_S = 5.0
GRAB_POINTER = b"""
import time
from Xlib import X
from Xlib.display import Display
display = Display(":1")
display.screen().root.grab_pointer(0, 0, X.GrabModeAsync, X.GrabModeAsync, 0, 0, X.CurrentTime)
display.sync()
time.sleep(1000)
"""
GRAB_SERVER = b"""
import time
from Xlib.display import Display
display = Display(":1")
display.grab_server()
display.sync()
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def env(desktop: DesktopSession) -> Played:
    """An environment on the desktop of all modules."""
    made = Played()
    made.desktop = desktop
    return made


@pytest.fixture
def clean(env: Played) -> Iterator[str]:
    """The first observation of an episode; after the test, the next episode must show the same."""
    first = env.begin("galculator", files={"pointer.py": GRAB_POINTER, "server.py": GRAB_SERVER})
    yield first
    began = monotonic()
    assert env.begin("galculator", files={"pointer.py": GRAB_POINTER, "server.py": GRAB_SERVER}) == first
    text, _, _, info = env.act("click({button '7'})")
    assert info["action_valid"]
    assert "value='7'" in text
    assert monotonic() - began < MAX_STEP_S


def attack(env: Played, command: str) -> tuple[str, bool]:
    """Run a program of the agent and take a step; return its text and whether the episode ended."""
    env.shell(f"export DISPLAY=:1 HOME=/home/user; cd; {command}")
    began = monotonic()
    text, reward, over, _ = env.act("click(500, 400)")
    assert monotonic() - began < MAX_STEP_S
    assert reward == 0.0
    return text, over


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param("pkill -SEGV galculator", "! galculator crashed (signal 11)", id="crash"),
        pytest.param("(setsid sh -c 'while :; do :; done' >/dev/null 2>&1 &)", "textbox", id="endless loop"),
        pytest.param("pkill -STOP galculator", "galculator does not respond", id="frozen application"),
        pytest.param(
            "(setsid python3 pointer.py >/dev/null 2>&1 &) ; sleep 0.5", "textbox value='0'", id="grabbed pointer"
        ),
        pytest.param(
            "(setsid python3 server.py >/dev/null 2>&1 &) ; sleep 0.5",
            "the desktop did not respond",
            id="grabbed server",
        ),
    ],
)
def test_an_attack_is_shown_and_the_episode_continues(
    env: Played, clean: str, command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_client, "STEP_TIMEOUT_S", SHORT_STEP_S)
    text, over = attack(env, command)
    assert shown in text
    assert not over


def test_a_screenshot_between_two_turns_takes_no_note(env: Played, clean: str) -> None:
    env.shell("pkill -SEGV galculator; sleep 0.1")
    assert env.screenshot()
    assert "! galculator crashed (signal 11)" in env.act("wait(0)")[0]


def test_a_modal_dialog_and_a_flood_of_windows_are_shown(env: Played, clean: str) -> None:
    flood = "for i in 1 2 3 4 5 6; do zenity --info --text=$i & done; sleep 2"
    text, over = attack(env, f"({flood}) >/dev/null 2>&1 </dev/null")
    assert text.count("window") + text.count("dialog") >= 6
    assert not over


def test_a_full_disk_is_an_outcome(env: Played, clean: str) -> None:
    _, over = attack(
        env, "head -c 300M /dev/zero > big 2>/dev/null; head -c 300M /dev/zero > /tmp/big 2>/dev/null; true"
    )
    assert not over
    assert env.act("done()")[1:3] == (0.0, True)


def test_killing_every_process_ends_the_episode_without_success(env: Played, clean: str) -> None:
    text, over = attack(env, "kill -9 -1")
    assert over
    assert "the desktop was lost" in text
