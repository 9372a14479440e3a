"""Episode after episode in one sandbox: what it holds does not grow, whatever the pages did."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs.computer import driver_client
from turnwise.envs.web.browser_session import BrowserSession
from turnwise.envs.web.miniwob.env import SERVER, MiniWoBEnv
from turnwise.tests.envs.web.hostile_site import HostileSite, number_of

EPISODES = int(os.environ.get("TURNWISE_WEB_EPISODES", "1000"))
EVERY = 20
"""One episode in so many is a hostile one."""
PAGES = ("popups", "restless", "rewrites", "download", "endless", "confirm", "memory")
TASKS = ("click-button", "enter-text", "login-user", "click-tab-2", "email-inbox")
HOLDINGS = """
processes=$(ls -d /proc/[0-9]* | wc -l)
files=$(ls /proc/[0-9]*/fd 2>/dev/null | wc -l)
memory=$(cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ {sum += $2} END {print int(sum / 1024)}')
disk=$(du -sk /tmp /workspace 2>/dev/null | awk '{sum += $1} END {print sum}')
echo "processes $processes files $files memory_mib $memory disk_kib $disk"
"""
ROOM = {"processes": 4, "files": 60, "memory_mib": 120, "disk_kib": 6000, "host_files": 4}
"""By how much the most of the last quarter may be above the most of the second."""

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(0)]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_client, "STEP_TIMEOUT_S", 3.0)


def holdings(shared: BrowserSession) -> dict[str, int]:
    """What the sandbox holds, and this process."""
    assert shared.sandbox
    said = shared.sandbox.exec(["sh", "-c", HOLDINGS], timeout_s=20).stdout.decode().split()
    found = dict(zip(said[::2], map(int, said[1::2]), strict=True))
    return found | {"host_files": len(list(Path("/proc/self/fd").iterdir()))}


@pytest.fixture
def site(browsers: None) -> Iterator[HostileSite]:
    made = HostileSite()
    yield made
    made.close()


def test_a_thousand_episodes_leave_nothing_behind(patience: None, site: HostileSite) -> None:
    shared = BrowserSession([SERVER])
    site.browser = shared
    games = [MiniWoBEnv(task, observation="both") for task in TASKS]
    for game in games:
        game.browser = shared
    told: list[dict[str, int]] = []
    boxes = set()
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
            boxes.add(shared.sandbox.id)
            if number % 10 == 0:
                told.append(holdings(shared))
    finally:
        shared.close()
    quarter = len(told) // 4
    early, late = told[quarter : 2 * quarter], told[-quarter:]
    grown = {key: max(one[key] for one in late) - max(one[key] for one in early) for key in ROOM}
    print(f"{EPISODES} episodes in {len(boxes)} sandboxes; first {told[0]}, last {told[-1]}, grown {grown}")
    assert all(grown[key] <= ROOM[key] for key in ROOM), (grown, told[::10])
