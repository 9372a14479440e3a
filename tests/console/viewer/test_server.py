"""``turnwise view`` from its start to Ctrl-C, and each reason why it does not start."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from time import sleep
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from turnwise.console.viewer import server
from turnwise.console.viewer.security import LOOPBACK, Door
from turnwise.console.viewer.server import address_of
from turnwise.store.database import Database
from turnwise.store.run_lock import hold_run
from turnwise.tests.console.conftest import Turnwise
from turnwise.tests.console.viewer.conftest import serving
from turnwise.tests.store.making import play_group, start, train


@pytest.mark.slow
def test_the_command_serves_the_run_until_ctrl_c(populated: str) -> None:
    command = [sys.executable, "-m", "turnwise", "view", "--store", populated, "--port", "0", "--open", "r"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"the viewer is at (http://127\.0\.0\.1:\d+)/runs/r \(Ctrl-C ends it\)\n", line)
        assert found, line
        with urlopen(found[1], timeout=20) as answer:  # noqa: S310 - its own address
            assert answer.url == f"{found[1]}/runs/r"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "server" not in answer.headers
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, "")


def test_a_taken_port_is_one_line(turnwise: Turnwise, populated: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = turnwise("view", "--store", populated, "--port", str(port), "--open", "a-0")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in ended.err
    assert "`--port 0`" in ended.err
    assert f"where a viewer runs there, it has http://127.0.0.1:{port}/trajectories/a-0" in ended.err


@pytest.mark.parametrize("host", ["", "example.org", "1.2.3", "192.0.2.1"])
def test_a_host_that_is_not_of_this_machine_is_one_line(turnwise: Turnwise, populated: str, host: str) -> None:
    ended = turnwise("view", "--store", populated, "--host", host, "--port", "0")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "--host" in ended.err or "cannot listen" in ended.err


def test_a_missing_store_or_run_is_one_line(turnwise: Turnwise, populated: str, tmp_path: Path) -> None:
    missing = turnwise("view", "--store", f"sqlite:///{tmp_path}/none.db")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "there is no store at" in missing.err
    unknown = turnwise("view", "--store", populated, "--open", "quickstart")
    assert (unknown.code, "no run quickstart in the store" in unknown.err) == (2, True)


def test_a_store_of_another_version_is_one_line(turnwise: Turnwise, tmp_path: Path, populated: str) -> None:
    file = tmp_path / "old.db"
    file.write_bytes(Path(populated.removeprefix("sqlite:///")).read_bytes())
    with sqlite3.connect(file) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0000'")
    conn.close()
    ended = turnwise("view", "--store", f"sqlite:///{file}")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "0000" in ended.err


def test_only_another_address_than_loopback_gets_a_token() -> None:
    assert [Door.of(host, "t").token for host in sorted(LOOPBACK)] == [None, None, None]
    assert [Door.of(host, "t").token for host in ("0.0.0.0", "::", "10.1.2.3")] == ["t", "t", "t"]  # noqa: S104


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:8600"),  # noqa: S104 - listened on by no test
        ("::", "http://[::1]:8600"),
        ("::1", "http://[::1]:8600"),
        ("gpu1", "http://gpu1:8600"),
    ],
)
def test_the_address_is_one_of_the_listening_family(host: str, address: str) -> None:
    assert address_of(host, 8600) == address


@pytest.mark.slow
def test_the_demonstration_has_something_to_show_and_is_deleted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnwise", "view", "--demo", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found

        def read(path: str) -> Any:
            with urlopen(f"{found[0]}/api{path}", timeout=20) as answer:  # noqa: S310 - its own address
                return json.load(answer)

        assert {run["id"] for run in read("/runs")["runs"]} >= {"demo-oracle", "demo-random"}
        groups = read("/runs/demo-random/groups")["groups"]
        apart = [read(f"/groups/{one['group']['id']}")["first_divergence"] for one in groups[:4]]
        assert len(groups) == 16
        assert any(one is not None for one in apart)
        assert read("/search?q=click")["hits"]
        assert read("/compare?runs=demo-oracle,demo-random")["paired"]
        with urlopen(f"{found[0]}/runs", timeout=20) as answer:  # noqa: S310 - its own address
            assert "No model was trained" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, list(tmp_path.glob("turnwise-demo-*"))) == (130, [])


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGHUP])
def test_a_demonstration_that_is_terminated_leaves_nothing_and_the_next_removes_what_a_kill_left(
    tmp_path: Path, ended_by: signal.Signals
) -> None:
    left, living = tmp_path / "turnwise-demo-0-x", tmp_path / f"turnwise-demo-{os.getpid()}-x"
    left.mkdir()
    living.mkdir()
    command = [sys.executable, "-m", "turnwise", "view", "--demo", "--port", "0"]
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ``nohup`` ignores it
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    signal.signal(signal.SIGHUP, former)
    try:
        while not (own := list(tmp_path.glob(f"turnwise-demo-{process.pid}-*/turnwise.db"))):
            sleep(0.02)
            assert process.poll() is None
        process.send_signal(ended_by)
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, own[0].exists(), left.exists(), living.exists()) == (143, False, False, True)


@pytest.mark.slow
def test_twenty_open_pages_end_with_the_server_and_leave_the_run_alone(own: Database) -> None:
    start(own)
    play_group(own, "g")
    with hold_run(own, "r"):
        command = [sys.executable, "-m", "turnwise", "view", "--store", own.url, "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = re.search(r"http://[\d.:]+", process.stdout.readline())
            assert address is not None
            streams = [urlopen(f"{address[0]}/runs/r/events", timeout=20) for _ in range(20)]  # noqa: S310
            assert [one.readline() for one in streams] == [b"retry: 2000\n"] * 20
            for one in streams[:10]:
                one.close()
            with urlopen(f"{address[0]}/runs", timeout=20) as answer:  # noqa: S310
                assert answer.status == 200
            train(own, ["g"], 1, 0)
            assert any(b'"updates":[1]' in streams[-1].readline() for _ in range(20))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
        assert (process.returncode, errors) == (130, "")
        for one in streams[10:]:
            one.close()
        play_group(own, "again", version=1)
        assert train(own, ["again"], 2, 1) == 2


@pytest.fixture
def slow_connections(viewed: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A viewer with a short timeout and few connections."""
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 20)
    with serving(viewed) as address:
        yield "127.0.0.1", int(address.rpartition(":")[2])


REQUEST = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET /runs", REQUEST[:-2], REQUEST, REQUEST + REQUEST[:-2]])
def test_a_connection_that_sends_no_whole_request_is_ended(slow_connections: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(slow_connections, timeout=10) as one:
        one.sendall(sent)
        received = b""
        with suppress(BrokenPipeError, ConnectionResetError):
            while part := one.recv(65_536):
                received += part
                one.sendall(b"X-More: a\r\n" if sent[-4:] != b"\r\n\r\n" else b"")
    assert received.count(b"HTTP/1.1 200 OK") == sent.count(b"\r\n\r\n")


def test_a_slow_head_is_ended_while_its_bytes_still_come(slow_connections: tuple[str, int]) -> None:
    with socket.create_connection(slow_connections, timeout=0.1) as one:
        one.sendall(REQUEST[:-2])
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100):
                one.sendall(b"X-More: a\r\n")
                with suppress(TimeoutError):
                    assert one.recv(100) == b""
            pytest.fail("the connection is open after ten seconds")


def test_connections_without_a_request_leave_their_places_to_others(
    slow_connections: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 60)
    with ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(socket.create_connection(slow_connections)).sendall(b"GET /")
        with urlopen(f"http://127.0.0.1:{slow_connections[1]}/api/runs", timeout=10) as answer:
            assert answer.status == 200


def test_streams_beyond_the_number_of_connections_are_refused_and_hold_no_place(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 20)
    start(own)
    with hold_run(own, "r"), serving(own) as address, ExitStack() as opened:
        stream = f"{address}/runs/r/events"
        streams = [opened.enter_context(urlopen(stream, timeout=10)) for _ in range(18)]  # noqa: S310
        sleep(1.2)  # longer than a connection without a request may last
        assert [one.readline() for one in streams] == [b"retry: 2000\n"] * 18
        with urlopen(f"{address}/api/runs", timeout=10) as answer:  # noqa: S310
            assert answer.status == 200
        opened.enter_context(urlopen(stream, timeout=10))  # noqa: S310
        with pytest.raises(HTTPError, match="503"):
            urlopen(f"{address}/api/runs", timeout=10)  # noqa: S310
