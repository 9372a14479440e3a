"""``turnwise view --open`` moves the shown tab of a running viewer, and nobody else can."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import pytest
from sqlalchemy import make_url
from starlette.testclient import TestClient
from turnwise.console.viewer import opening
from turnwise.console.viewer.links import BadLink, page_of
from turnwise.console.viewer.opening import Opened, Tabs, answering, open_in_viewer, socket_path
from turnwise.store.database import Database
from turnwise.tests.console.conftest import Turnwise

ADDRESS = "http://127.0.0.1:8600"


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of runtime files whose path is short: that of a socket has a limit."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
def path() -> Path:
    found = socket_path(make_url("sqlite:////a/turnwise.db"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("link", "page"),
    [
        *(("r", "/runs/r"), ("a", "/groups/a"), ("a-0", "/trajectories/a-0"), ("/runs?kind=eval", "/runs?kind=eval")),
        (
            "http://127.0.0.1:8600/trajectories/a-0?turn=1&quote=x%20y#turn-1",
            "/trajectories/a-0?turn=1&quote=x%20y#turn-1",
        ),
    ],
)
def test_a_link_leads_to_a_page(viewed: Database, link: str, page: str) -> None:
    assert page_of(viewed, link) == page


@pytest.mark.parametrize("link", ["nothing", "//evil.example", "javascript://x", "/\\evil.example", "file:///x"])
def test_another_link_is_refused(viewed: Database, link: str) -> None:
    with pytest.raises(BadLink, match="--open"):
        page_of(viewed, link)


def test_the_socket_is_of_this_user_alone(path: Path) -> None:
    with answering(path, Tabs(), ADDRESS, None):
        assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        assert open_in_viewer(path, "/runs/r") == Opened(f"{ADDRESS}/runs/r", 0)
    assert not path.exists()
    assert open_in_viewer(path, "/runs/r") is None


def test_a_folder_that_others_enter_is_not_used(path: Path) -> None:
    path.parent.chmod(0o755)
    assert socket_path(make_url("sqlite:////a/turnwise.db")) is None
    with answering(None, Tabs(), ADDRESS, None):
        assert open_in_viewer(None, "/runs") is None


def test_a_socket_that_is_left_is_replaced_and_another_viewer_keeps_its_own(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    assert open_in_viewer(path, "/runs") is None
    with answering(path, Tabs(), "http://127.0.0.1:1", None):
        with answering(path, Tabs(), "http://127.0.0.1:2", "secret"):
            found = open_in_viewer(path, "/runs?kind=eval#x")
        assert found == Opened("http://127.0.0.1:2/runs?kind=eval&token=secret#x", 0)


def test_a_viewer_removes_the_sockets_of_those_that_were_killed(path: Path) -> None:
    left, other = path.with_name("left.sock"), path.with_name("other.sock")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(left))
    with answering(other, Tabs(), ADDRESS, None), answering(path, Tabs(), ADDRESS, None):
        assert (left.exists(), other.exists(), path.exists()) == (False, True, True)
        assert open_in_viewer(other, "/runs") == Opened(f"{ADDRESS}/runs", 0)


def test_two_stores_have_two_sockets(path: Path) -> None:
    assert socket_path(make_url("sqlite:////b/turnwise.db")) != path
    assert socket_path(make_url("sqlite:////a/../a/turnwise.db")) == path


@pytest.mark.parametrize("sent", [b"", b'"//evil.example"\n', b"{}\n", b"\xff\n", b"[" * 9000])
def test_a_request_for_no_page_gets_no_answer(path: Path, sent: bytes) -> None:
    tabs = Tabs()
    with answering(path, tabs, ADDRESS, None), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""
        assert open_in_viewer(path, "/runs") is not None


def test_a_tab_receives_the_page_once_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "KEEPALIVE_INTERVAL_S", 0.05)

    async def listened() -> list[str]:
        tabs = Tabs()
        stream = tabs._stream()
        found = [await anext(stream)]
        assert await asyncio.to_thread(tabs.open, "/runs/r?q=%22") == 1
        found += [await anext(stream), await anext(stream)]
        await stream.aclose()  # type: ignore[attr-defined]
        assert tabs.open("/runs") == 0
        return found

    assert asyncio.run(listened()) == ["retry: 2000\n\n", 'event: page\ndata: "/runs/r?q=%22"\n\n', ": still here\n\n"]


def test_a_page_of_another_site_listens_to_nothing(client: TestClient) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert client.get("/opened", headers=headers).status_code == 403
    assert client.post("/opened").status_code == 405


@contextmanager
def served(store: str, *options: str, ended_by: signal.Signals = signal.SIGINT) -> Iterator[str]:
    """Run the command on a free port; yield its address, without a path, and end it by a signal."""
    command = [sys.executable, "-m", "turnwise", "view", "--store", store, "--port", "0", *options]
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ``nohup`` ignores it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    signal.signal(signal.SIGHUP, former)
    try:
        assert process.stdout is not None
        found = re.match(r"the viewer is at (http://[^/]+)/", process.stdout.readline())
        assert found
        yield found[1]
        process.send_signal(ended_by)
        code = signal.SIGTERM if ended_by is signal.SIGHUP else ended_by
        assert process.wait(timeout=20) == 128 + code
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_command_moves_the_tab_of_a_running_viewer(turnwise: Turnwise, populated: str) -> None:
    with served(populated, "--open", "/runs/r") as address:
        assert turnwise("view", "--store", populated, "--open", "s").out == (
            f"no tab of the running viewer is shown; the page is at {address}/runs/s\n"
        )
        with urlopen(f"{address}/opened", timeout=20) as tab:  # noqa: S310 - its own address
            tab.readline()
            moved = turnwise("view", "--store", populated, "--open", "a-0")
            assert moved.out == f"opened in the running viewer: {address}/trajectories/a-0\n"
            assert [tab.readline() for _ in range(3)][1:] == [b"event: page\n", b'data: "/trajectories/a-0"\n']


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGHUP])
def test_a_viewer_that_is_terminated_ends_in_order(populated: str, ended_by: signal.Signals) -> None:
    path = socket_path(make_url(populated))
    assert path is not None
    with served(populated, ended_by=ended_by):
        assert path.exists()
    assert not path.exists()
