"""Many episodes in one sandbox leak nothing: processes, files, windows, shared memory, memory of the servers."""

from collections.abc import Iterator

import pytest
from turnwise.tests.envs.worlds.desktop.playing import Played

APPLICATIONS = ("galculator", "mousepad a.txt", "pcmanfm .", "lxterminal")
MAX_GROWTH_MIB = 40
COUNTS = (
    "ps -eo comm --no-headers | grep -cE 'Xvfb|dbus|openbox|at-spi|python3|defunct'; find /tmp /dev/shm | wc -l; "
    "ipcs -m | grep -c 0x; ps -eo rss,comm | awk '/Xvfb|openbox|dbus|at-spi|python3/ {total += $1} END {print total}'"
)


@pytest.fixture(scope="module")
def env(desktops: None) -> Iterator[Played]:
    """One desktop for all tests of the module."""
    made = Played()
    yield made
    made.close()


def counts(env: Played) -> tuple[list[int], int]:
    """Return processes, files and shared memory after a reset, and the servers' memory in MiB."""
    env.begin("galculator", files={"a.txt": b""})
    *exact, memory_kib = map(int, env.shell(COUNTS).split())
    return exact, memory_kib >> 10


@pytest.mark.parametrize("episodes", [2, pytest.param(500, marks=pytest.mark.soak)])
def test_episodes_leak_nothing(env: Played, episodes: int) -> None:
    for application in APPLICATIONS:
        env.begin(application, files={"a.txt": b""})
    before, memory_mib = counts(env)
    assert env.desktop.sandbox is not None
    sandbox = env.desktop.sandbox.id
    for number in range(episodes):
        env.begin(APPLICATIONS[number % len(APPLICATIONS)], files={"a.txt": b""})
        env.act('type("ls &\\n")')
        env.act("right_click(500, 400)")
    after, memory_after_mib = counts(env)
    assert env.desktop.sandbox.id == sandbox
    assert after == before
    assert memory_after_mib - memory_mib < MAX_GROWTH_MIB
