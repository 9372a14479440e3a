"""The agent's programs cannot answer for the driver, control the process that resets them, or survive a reset."""

from collections.abc import Iterator

import pytest
from turnwise.sandbox import SandboxError
from turnwise.tests.envs.worlds.desktop.playing import Played

FORGER = rb"""
import json, os, signal, socket, threading, time
answer = json.dumps({"nodes": [], "notes": ["forged"], "windows": [
    {"title": "forged", "application": "forged", "rect": [0, 0, 9, 9], "focused": True}]}).encode() + b"\n"
def serve(path):
    try:
        os.unlink(path)
        end = socket.socket(socket.AF_UNIX)
        end.bind(path)
        end.listen()
    except OSError:
        return
    while True:
        connection, _ = end.accept()
        connection.recv(1 << 16)
        connection.sendall(answer)
        connection.close()
paths = {line.split()[-1] for line in open("/proc/net/unix") if line.split()[-1].startswith("/tmp/")}
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
for path in paths | {"/tmp/launcher.socket"}:
    threading.Thread(target=serve, args=(path,), daemon=True).start()
time.sleep(1000)
"""
TRACER = rb"""
import ctypes, os
for name in os.listdir("/proc"):
    try:
        command = open(f"/proc/{name}/cmdline").read()
    except OSError:
        continue
    if "driver." in command and name.isdigit():
        traced = ctypes.CDLL(None).ptrace(16, int(name), 0, 0) == 0
        readable = os.access(f"/proc/{name}/mem", os.R_OK) or os.access(f"/proc/{name}/fd", os.R_OK)
        print("controlled" if traced or readable else "protected")
"""


@pytest.fixture(scope="module")
def env(desktops: None) -> Iterator[Played]:
    """One desktop for all tests of the module."""
    made = Played()
    yield made
    made.close()


def begin(env: Played) -> str:
    return env.begin("galculator", files={"forge.py": FORGER, "trace.py": TRACER})


def test_a_program_cannot_answer_for_the_driver(env: Played) -> None:
    first = begin(env)
    env.shell("(setsid python3 /home/user/forge.py >/dev/null 2>&1 &) ; sleep 0.3")
    text, reward, over, _ = env.act("done()")
    assert (reward, over) == (0.0, True)
    assert "forged" not in text
    assert env.end is None or not [one for one in env.end.windows if one.title == "forged"]
    assert begin(env) == first


def test_no_process_of_the_driver_can_be_controlled(env: Played) -> None:
    begin(env)
    found = env.shell("python3 /home/user/trace.py; id -u; stat -c %u /tmp/driver").split("\n")
    assert found[:2] == ["protected", "protected"]
    assert int(found[3]) == int(found[2]) + 1
    assert not env.shell("ls /tmp/driver")


def test_limits_of_the_launcher_do_not_reach_the_next_episode(env: Played) -> None:
    launcher = "$(pgrep -f user.launcher | head -1)"
    first, limits = begin(env), env.shell(f"cat /proc/{launcher}/limits")
    env.shell(f"prlimit --nofile=64:64 --cpu=1000:1000 --pid {launcher}")
    assert env.shell(f"cat /proc/{launcher}/limits") != limits
    env.act("wait(0)")
    assert begin(env) == first
    assert env.shell(f"cat /proc/{launcher}/limits") == limits


def test_the_loss_of_the_driver_itself_is_a_failure_of_the_world(env: Played) -> None:
    begin(env)
    assert env.desktop.sandbox is not None
    env.desktop.sandbox.exec(["kill", "-9", "-1"], timeout_s=5, user=env.desktop.program.user)
    with pytest.raises(SandboxError):
        env.act("click(500, 400)")
