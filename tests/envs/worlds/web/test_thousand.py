"""A thousand episodes in one sandbox: its resources do not grow, whatever the pages do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs.worlds.computer import driver_client
from turnwise.envs.worlds.web.browser_session import BROWSER_USER, DRIVER_USER, SITE_USER, BrowserSession
from turnwise.envs.worlds.web.miniwob.env import SERVER, MiniWoBEnv
from turnwise.tests.envs.worlds.web.hostile_site import HostileSite, number_of

EPISODES = int(os.environ.get("TURNWISE_WEB_EPISODES", "1000"))
EVERY = 20
"""One episode in this many is hostile."""
PAGES = ("popups", "restless", "rewrites", "download", "endless", "confirm", "memory")
TASKS = ("click-button", "enter-text", "login-user", "click-tab-2", "email-inbox")
RESOURCES_SCRIPT = """
own() { find "$@" -user "$(id -u)" 2>/dev/null; }
processes=$(own /proc -maxdepth 1 -name '[0-9]*' | wc -l)
files=$(ls /proc/[0-9]*/fd 2>/dev/null | wc -l)
memory=$(cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ {sum += $2} END {print int(sum / 1024)}')
disk=$(own /tmp /workspace -type f -printf '%k\\n' | awk '{sum += $1} END {print sum + 0}')
echo "processes $processes files $files memory_mib $memory disk_kib $disk"
"""
"""Prints the resources of one user of the sandbox."""
ALLOWED_GROWTH = {"processes": 4, "files": 60, "memory_mib": 120, "disk_kib": 6000, "host_files": 4}
"""How much the maximum of the last quarter may exceed the maximum of the second quarter."""

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(0)]


@pytest.fixture
def short_step_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_client, "STEP_TIMEOUT_S", 3.0)


def resources(shared: BrowserSession) -> dict[str, int]:
    """Return the resources of the sandbox and of this process."""
    assert shared.sandbox
    found = dict.fromkeys(("processes", "files", "memory_mib", "disk_kib"), 0)
    for user in (BROWSER_USER, DRIVER_USER, SITE_USER):
        words = shared.sandbox.exec(["sh", "-c", RESOURCES_SCRIPT], timeout_s=20, user=user).stdout.decode().split()
        for name, value in zip(words[::2], words[1::2], strict=True):
            found[name] += int(value)
    return found | {"host_files": len(list(Path("/proc/self/fd").iterdir()))}


@pytest.fixture
def site(browsers: None) -> Iterator[HostileSite]:
    made = HostileSite()
    yield made
    made.close()


def test_a_thousand_episodes_leave_no_resources_behind(short_step_timeout: None, site: HostileSite) -> None:
    shared = BrowserSession([SERVER])
    site.browser = shared
    games = [MiniWoBEnv(task, observation="both") for task in TASKS]
    for game in games:
        game.browser = shared
    samples: list[dict[str, int]] = []
    sandboxes = set()
    try:
        for number in range(EPISODES):
            if number % EVERY == EVERY - 1:
                site.at = PAGES[number // EVERY % len(PAGES)]
                seen, _ = site.reset(seed=number)
                site.step(f"click({number_of(seen, 'link' if site.at == 'download' else 'button')})")
                site.at = "harmless"
                assert "'page'" in str(site.reset(seed=number)[0])
            else:
                game = games[number % len(games)]
                game.reset(seed=number)
                game.step(f"click({next(node['id'] for node in game.nodes if 'id' in node)})")
            assert shared.sandbox
            sandboxes.add(shared.sandbox.id)
            if number % 10 == 0:
                samples.append(resources(shared))
    finally:
        shared.close()
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    grown = {key: max(one[key] for one in late) - max(one[key] for one in early) for key in ALLOWED_GROWTH}
    print(
        f"{EPISODES} episodes in {len(sandboxes)} sandsandboxes; first {samples[0]}, last {samples[-1]}, grown {grown}"
    )
    assert all(grown[key] <= ALLOWED_GROWTH[key] for key in ALLOWED_GROWTH), (grown, samples[::10])
