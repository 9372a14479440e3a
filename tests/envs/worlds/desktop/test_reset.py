"""Nothing of an episode reaches the next one in the same sandbox."""

import hashlib

import pytest
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.tests.envs.worlds.desktop.playing import Played, text_of

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
LEFT_IN_THE_SERVER = b"""
import ctypes, os, time
from Xlib import X, Xatom
from Xlib.display import Display
display = Display(":1")
root = display.screen().root
display.set_pointer_mapping([3, 2, 1, *range(4, 1 + len(display.get_pointer_mapping()))])
display.set_screen_saver(1, 1, 1, 1)
window = root.create_window(0, 0, 10, 10, 0, 24)
window.change_property(display.intern_atom("SECRET"), Xatom.STRING, 8, b"secret")
display.set_close_down_mode(X.RetainPermanent)
display.sync()
xlib = ctypes.CDLL("libX11.so.6")
xlib.XOpenDisplay.restype = ctypes.c_void_p
mine = ctypes.c_void_p(xlib.XOpenDisplay(b":1"))
SLOW_KEYS = 2
xlib.XkbChangeEnabledControls(mine, 0x100, SLOW_KEYS, SLOW_KEYS)
xlib.XSync(mine, 0)
libc = ctypes.CDLL(None)
libc.shmget(0, 4096, 0o1600), libc.msgget(77, 0o1600), libc.semget(78, 1, 0o1600)
for path in ("/tmp/session/secret", "/tmp/.X11-unix/secret", "/dev/mqueue/secret"):
    open(path, "w").write("secret")
time.sleep(1000)
"""
SERVER = """
from Xlib.display import Display
display = Display(":1")
saver = display.get_screen_saver()
print(display.get_pointer_mapping()[:3], saver.timeout, display.intern_atom("SECRET", only_if_exists=True))
"""
FILES = "cat /proc/sysvipc/* | wc -l; ls -A /tmp /tmp/session /tmp/.X11-unix /dev/mqueue"
STATE = "ps -eo uid,comm --no-headers | grep -vwE 'ps|sh|grep|sort' | sort; find /tmp /dev/shm /workspace/home | sort"


@pytest.fixture(scope="module")
def env(desktop: DesktopSession) -> Played:
    """An environment on a desktop that starts anew: nothing of an earlier module may hide what an episode leaves."""
    desktop.close()
    made = Played("both")
    made.desktop = desktop
    return made


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


def test_what_programs_leave_in_the_servers_is_gone(env: Played) -> None:
    files = {"leave.py": LEFT_IN_THE_SERVER}

    def begin() -> tuple[str, str, str]:
        env.begin("mousepad", files=files)
        return env.shell(f"python3 -c '{SERVER}'"), env.shell(FILES), env.act('type("typed")')[0]

    clean = begin()
    assert "value='typed'" in clean[2]
    # Starts as one of the agent's programs, which an action started, does.
    env.shell("(python3 /home/user/leave.py >/dev/null 2>&1 &) ; sleep 0.3")
    env.act("wait(0)")
    assert env.shell(f"python3 -c '{SERVER}'") != clean[0]
    assert env.shell(FILES) != clean[1]
    assert begin() == clean


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
