"""A failure of the browser, its driver, its sandbox or its node: what is an outcome, and what is repeated elsewhere."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.envs.worlds.computer import driver_client
from turnwise.envs.worlds.web.browser_session import (
    BROWSER,
    BROWSER_USER,
    DRIVER_USER,
    FILES,
    SITE_USER,
    SOCKET,
    SiteServer,
)
from turnwise.sandbox import SandboxError, SandboxLost
from turnwise.sandbox.errors import NodeLost
from turnwise.tests.envs.worlds.web.hostile_site import LOST_STEP_TIMEOUT_S, HostileSite, clean, lose, number_of

pytestmark = pytest.mark.usefixtures("browsers")


def test_a_lost_sandbox_is_not_an_outcome(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    assert site.browser.sandbox
    subprocess.run(["docker", "kill", site.browser.sandbox.id], check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(SandboxLost):
        site.step("noop(1)")
    assert site.step('send_msg_to_user("right")')[1:3] == (0.0, True)
    clean(site)


def test_an_episode_starts_in_a_new_sandbox_after_one_has_filled_the_disk(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    full = site.browser.sandbox
    assert full
    # The next episode must not find room in place of this one's site.
    full.exec(["mv", FILES, f"{FILES}-elsewhere"], timeout_s=5, user=SITE_USER)
    filling = ["sh", "-c", "head -c 99999999 /dev/zero >/tmp/filling"]
    assert b"No space" in full.exec(filling, timeout_s=20, user=BROWSER_USER).stderr
    clean(site)
    assert site.browser.sandbox is not full


def test_messages_of_a_page_do_not_fill_the_disk(site: HostileSite) -> None:
    lose(site, "talks")
    assert site.browser.sandbox
    log = site.browser.sandbox.read(BROWSER.helpers[0].folder, timeout_s=5, user=BROWSER_USER)["log"]
    assert len(log) < 1 << 16
    clean(site)


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_client, "STEP_TIMEOUT_S", LOST_STEP_TIMEOUT_S)


@pytest.mark.soak
@pytest.mark.parametrize("sent", ["-KILL", "-STOP"])
def test_an_endless_page_is_an_outcome_even_if_no_new_browser_starts(
    site: HostileSite, short_steps: None, sent: str
) -> None:
    site.at = "endless"
    seen, _ = site.reset(seed=1)
    assert site.browser.sandbox
    # Without the launcher, no browser starts again.
    site.browser.sandbox.exec(["pkill", sent, "-f", "driver.launcher"], timeout_s=5, user=BROWSER_USER)
    after, reward, over, _, _ = site.step(f"click({number_of(seen, 'button')})")
    assert "error: the page did not respond" in str(after)
    assert (reward, over) == (0.0, True)
    clean(site)


@pytest.mark.soak
def test_a_browser_that_stops_by_itself_is_not_an_outcome(site: HostileSite, short_steps: None) -> None:
    site.at = "harmless"
    seen, _ = site.reset(seed=1)
    assert site.browser.sandbox
    site.browser.sandbox.exec(["pkill", "-STOP", "-f", "headless"], timeout_s=5, user=BROWSER_USER)
    with pytest.raises(SandboxLost, match="got no processor time or stopped"):
        site.step(f"click({number_of(seen, 'button')})")
    clean(site)


def test_a_page_that_crashed_is_replaced_at_once(site: HostileSite) -> None:
    site.at = "harmless"
    seen, _ = site.reset(seed=1)
    assert site.browser.sandbox
    site.browser.sandbox.exec(["pkill", "-9", "-f", "type=renderer"], timeout_s=5, user=BROWSER_USER)
    after, _, over, _, _ = site.step(f"click({number_of(seen, 'button')})")
    assert "it crashed" in str(after)
    assert not over
    clean(site)


def test_a_server_that_ends_is_reported_at_once(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    assert site.browser.sandbox
    began = time.monotonic()
    with pytest.raises(SandboxError, match=r"ended at once \(command: `echo broken; exit 3`\): broken"):
        SiteServer({}, "echo broken; exit 3", 8080).start(site.browser.sandbox, SITE_USER)
    assert time.monotonic() - began < 10
    clean(site)


def test_an_error_of_the_driver_is_not_an_outcome(site: HostileSite) -> None:
    site.at = "harmless"
    site.reset(seed=1)
    with pytest.raises(SandboxError, match="the driver of the browser failed: KeyError: 'unknown'"):
        site.browser.do([{"do": "act", "action": {"verb": "unknown"}}])
    clean(site)


def test_an_episode_starts_on_another_node_after_one_is_lost(
    site: HostileSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise NodeLost("the node died")

    site.at = "harmless"
    site.reset(seed=1)
    monkeypatch.setattr(site.browser.sandbox, "request", lost)
    clean(site)


MAIN = "from driver.server import main;"
PATIENT = (
    f"from driver import browser, server; browser.RESTART_TIMEOUTS_S = 4, 120; server.REPLACE_TIMEOUT_S = 150; {MAIN}"
)
"""Limits of the driver within which Chromium starts on any machine, once it does not hang."""
PATIENT_ALLOWANCE_S = 170.0


@pytest.fixture
def patient(site: HostileSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the driver of the site wait longer for the second attempt to start Chromium."""
    program = site.browser.program
    assert MAIN in program.command
    monkeypatch.setattr(site.browser, "program", replace(program, command=program.command.replace(MAIN, PATIENT)))
    monkeypatch.setattr(driver_client, "RECOVERY_ALLOWANCE_S", PATIENT_ALLOWANCE_S)
    site.browser.close()
    yield
    site.browser.close()


def test_a_start_of_chromium_that_hangs_is_repeated(site: HostileSite, patient: None) -> None:
    site.at = "harmless"
    seen, _ = site.reset(seed=1)
    assert site.browser.sandbox
    stopped = threading.Thread(target=stop_the_next, args=(chromium(site.browser.sandbox.id),))
    stopped.start()
    site.browser.sandbox.exec(["pkill", "-9", "-f", "type=renderer"], timeout_s=5, user=BROWSER_USER)
    after = str(site.step(f"click({number_of(seen, 'button')})")[0])
    stopped.join()
    assert "it crashed" in after
    assert site.browser.sandbox
    log = site.browser.sandbox.read(str(Path(SOCKET).with_name("log")), timeout_s=5, user=DRIVER_USER)["."]
    assert "Chromium did not start; Playwright restarts" in log.decode()
    clean(site)


def chromium(container: str) -> int:
    """Return the pid of the main process of Chromium in a container."""
    init = subprocess.check_output(["docker", "inspect", "-f", "{{.State.Pid}}", container], text=True).strip()
    namespace = Path(f"/proc/{init}/ns/pid").readlink()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "ns" / "pid").readlink() == namespace and is_chromium(int(folder.name)):
                return int(folder.name)
    raise LookupError(f"no Chromium runs in {container}")


def is_chromium(pid: int) -> bool:
    """Return whether a process is the main one of Chromium. Raises OSError."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"/lib/chromium/" in arguments and b"--type=" not in arguments


def parent(pid: int) -> int:
    """Return the pid of the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> Iterator[int]:
    """Yield the pids of the children of a process; none if it has ended."""
    with contextlib.suppress(OSError):
        yield from map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def stop_the_next(running: int) -> None:
    """Suspend the first Chromium that the launcher of this one starts after it, by the script of its package."""
    launcher = parent(parent(running))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid in (one for script in children(launcher) for one in children(script)):
            with contextlib.suppress(OSError):
                if pid != running and is_chromium(pid):
                    os.kill(pid, signal.SIGSTOP)
                    return
        time.sleep(0.01)
