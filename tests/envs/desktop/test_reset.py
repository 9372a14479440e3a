"""Nothing of an episode reaches the next one in the same sandbox."""

import hashlib
from collections.abc import Iterator

import pytest
from turnwise.tests.envs.desktop.playing import Played, text_of

LITTER = """
echo secret > /tmp/secret; echo secret > /dev/shm/secret; mkdir -p ~/.config/x ~/deep/er; chmod 000 ~/deep
python3 - <<'END' &
import time
from Xlib import X, Xatom
from Xlib.display import Display
display = Display(":1")
root = display.screen().root
window = root.create_window(0, 0, 10, 10, 0, 24)
window.set_selection_owner(display.intern_atom("CLIPBOARD"), X.CurrentTime)
root.change_property(display.intern_atom("LEFT"), Xatom.STRING, 8, b"over")
display.sync()
time.sleep(1000)
END
(setsid sleep 1000 &)
"""
STATE = "ps -eo uid,comm --no-headers | grep -vwE 'ps|sh|grep|sort' | sort; find /tmp /dev/shm /workspace/home | sort"


@pytest.fixture(scope="module")
def env(desktops: None) -> Iterator[Played]:
    """One desktop for all tests of the module."""
    made = Played("both")
    yield made
    made.close()


def start(env: Played) -> tuple[str, str, str]:
    """Start an episode; return its text, its picture's hash, and the processes and files of the sandbox."""
    text = env.begin("mousepad a.txt", files={"a.txt": b"one"})
    picture = env.screenshot()
    assert picture is not None
    return text, hashlib.sha256(picture).hexdigest(), env.shell(STATE)


def test_litter_of_an_episode_is_gone(env: Played) -> None:
    clean = start(env)
    assert env.desktop.sandbox is not None
    sandbox = env.desktop.sandbox.id
    env.shell(f"export DISPLAY=:1 HOME=/home/user\n{LITTER}\nsleep 0.3")
    env.act('press("Caps_Lock")')
    env.act("pyautogui.keyDown('shift'); pyautogui.mouseDown(500, 400)")
    assert "sleep" in env.shell(STATE)
    assert start(env) == clean
    assert env.desktop.sandbox.id == sandbox


def test_a_changed_key_map_needs_a_new_session(env: Played) -> None:
    clean = start(env)
    env.shell("export DISPLAY=:1; setxkbmap de")
    assert start(env) == clean
    env.act('type("yz")')
    assert "yzone" in text_of(env.step("wait(0)")[0])


def test_an_application_left_open_by_the_agent_is_closed(env: Played) -> None:
    clean = start(env)
    env.act('press("ctrl+n")')
    env.act('type("unsaved")')
    env.act('press("ctrl+q")')
    assert start(env) == clean


def test_files_have_one_date(env: Played) -> None:
    start(env)
    assert env.shell("stat -c %y /workspace/home/a.txt").startswith("2025-01-15 12:00:00")
