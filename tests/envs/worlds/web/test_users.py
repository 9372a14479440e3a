"""A page that takes over Chromium reaches neither the driver nor the site: attacks by a process with Chromium's uid."""

from collections.abc import Iterator

import pytest
from turnwise.envs.worlds.web.apps.env import WebAppsEnv
from turnwise.envs.worlds.web.browser_session import BROWSER_USER, DRIVER_USER, FILES, SITE_USER, SOCKET, BrowserSession
from turnwise.sandbox import SandboxLease

pytestmark = pytest.mark.usefixtures("browsers")
ATTACKS = {
    "connect to the driver": f"""
import socket
socket.socket(socket.AF_UNIX).connect("{SOCKET}")""",
    "connect to Playwright's end": """
import socket
socket.socket(socket.AF_UNIX).connect("/tmp/driver/playwright")""",
    "replace the driver's socket": f"""
import os
os.rename("{SOCKET}", "{SOCKET}.mine")""",
    "replace the driver's folder": """
import os
os.rename("/tmp/driver", "/tmp/mine")""",
    "replace the driver's code": """
open("/opt/turnwise/driver/server.py", "a")""",
    "read the database": f"""
open("{FILES}/site.db", "rb").read()""",
    "change the database": f"""
open("{FILES}/site.db", "r+b").write(b"mine")""",
    "replace the site": """
import os
os.rename("/tmp/site", "/tmp/mine")""",
    "plant a file on the site": f"""
open("{FILES}/site.db-journal", "wb").write(b"mine")""",
}
ON_PROCESSES = {
    "signal": "os.kill(pid, 0)",
    "stop": "os.kill(pid, 19)",
    "read the memory": 'open(f"/proc/{pid}/mem", "rb")',
    "read the environment": 'open(f"/proc/{pid}/environ", "rb").read()',
    "list the descriptors": 'os.listdir(f"/proc/{pid}/fd")',
    "enter the root": 'os.stat(f"/proc/{pid}/root/tmp")',
    "trace": "import ctypes; assert ctypes.CDLL(None, use_errno=True).ptrace(16, pid, 0, 0) == 0, 'refused'",
}
REFUSED = ("PermissionError", "AssertionError: refused")
OF_USER = """
import os
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    if os.stat(f"/proc/{{pid}}").st_uid == os.getuid() + {offset}:
        print("tried")
        {attack}
"""


@pytest.fixture(scope="module")
def sandbox(browser: BrowserSession) -> Iterator[SandboxLease]:
    env = WebAppsEnv(template="shop/price")
    env.browser = browser
    env.reset(seed=1)
    assert env.browser.sandbox
    yield env.browser.sandbox
    # Whatever was tried, the episode goes on.
    assert env.step('send_msg_to_user("12")')[2:4] == (True, False)


def attempted(sandbox: SandboxLease, script: str, user: int = BROWSER_USER) -> tuple[str, str]:
    """Return the output and the last line of the errors of a Python script."""
    result = sandbox.exec(["python3", "-I", "-c", script], timeout_s=10, user=user)
    return result.stdout.decode(), (result.stderr.decode().strip().splitlines() or [""])[-1]


@pytest.mark.parametrize("name", ATTACKS)
def test_the_browser_has_no_rights_to_files_and_sockets(sandbox: SandboxLease, name: str) -> None:
    assert attempted(sandbox, ATTACKS[name])[1].startswith(REFUSED)


@pytest.mark.parametrize("offset", [DRIVER_USER, SITE_USER])
@pytest.mark.parametrize("name", ON_PROCESSES)
def test_the_browser_has_no_rights_to_processes(sandbox: SandboxLease, name: str, offset: int) -> None:
    output, error = attempted(sandbox, OF_USER.format(offset=offset, attack=ON_PROCESSES[name]))
    assert (output, error.startswith(REFUSED)) == ("tried\n", True), error


def test_the_site_has_no_rights_to_the_driver(sandbox: SandboxLease) -> None:
    for name in ("connect to the driver", "replace the driver's folder", "replace the driver's code"):
        assert attempted(sandbox, ATTACKS[name], SITE_USER)[1].startswith(REFUSED)
    for attack in ON_PROCESSES.values():
        for offset in (DRIVER_USER - SITE_USER, BROWSER_USER - SITE_USER):
            assert attempted(sandbox, OF_USER.format(offset=offset, attack=attack), SITE_USER)[1].startswith(REFUSED)


@pytest.mark.parametrize("user", [BROWSER_USER, SITE_USER])
def test_the_launcher_serves_the_driver_only(sandbox: SandboxLease, user: int) -> None:
    script = """
import socket
end = socket.socket(socket.AF_UNIX)
end.settimeout(0.3)
end.connect("/tmp/launcher.socket")
end.sendall(b"[]")
print(end.recv(1))"""
    output, error = attempted(sandbox, script, user)
    assert output == "b''\n" or "TimeoutError" in error or "ConnectionResetError" in error


def test_the_answers_of_the_attacks_are_possible(sandbox: SandboxLease) -> None:
    assert attempted(sandbox, ATTACKS["connect to the driver"], DRIVER_USER) == ("", "")
    assert attempted(sandbox, ATTACKS["read the database"], SITE_USER) == ("", "")
    for attack in ("os.kill(pid, 0)", 'open(f"/proc/{pid}/environ", "rb").read()'):
        assert attempted(sandbox, OF_USER.format(offset=0, attack=attack))[1] == ""
