"""Docker containers are hardened and labeled, and none outlives its owner."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any
from uuid import uuid4

import docker
import docker.errors
import pytest
from turnwise.sandbox.backends.container import CAPABILITIES
from turnwise.sandbox.backends.docker import DockerBackend, describe_container
from turnwise.sandbox.backends.ownership import (
    EXPIRES,
    HOST,
    LABEL,
    PID,
    RUN,
    STARTED,
    UID,
    SandboxInfo,
    labels,
    this_host,
)
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.backends.seccomp import profile
from turnwise.sandbox.errors import NoEngine, NotTrusted, SandboxLost, StartFailed
from turnwise.sandbox.pool import Pool
from turnwise.sandbox.provider import BACKEND_VARIABLE
from turnwise.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.docker

SPEC = SandboxSpec(memory_mib=160, cpus=0.5, pids=48, disk_mib=16, inodes=512)
IMAGE = "turnwise/code:latest"
OWNER = """
import asyncio, sys
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.spec import SandboxSpec

async def main():
    backend = DockerBackend(sys.argv[1])
    sandboxes = [await backend.start(SandboxSpec()) for _ in range(2)]
    print("ready", flush=True)
    await sandboxes[0].exec(["sh", "-c", "trap '' HUP TERM; setsid sleep 600 & sleep 600"], timeout_s=600)

asyncio.run(main())
"""


BRIEF = """
from turnwise.sandbox import SandboxSpec, lease

with lease(SandboxSpec(), timeout_s=60):
    pass
"""
"""Its pool starts another sandbox, to keep one warm, when the program ends."""

EATER = """
import os, socket
end = socket.socket(socket.AF_UNIX)
end.bind("/tmp/eater")
end.listen()
os.fork() and os._exit(0)
os.close(1), os.close(2)
while True:
    one, _ = end.accept()
    one.recv(100)
    if not (child := os.fork()):
        bytearray(400 << 20)
        os._exit(0)
    one.sendall(str(os.waitpid(child, 0)[1]).encode())
    one.close()
"""


@pytest.fixture
def engine() -> Iterator[Any]:
    with closing(docker.APIClient(**docker.utils.kwargs_from_env())) as client:
        yield client


@asynccontextmanager
async def opened(run: str = "tests") -> AsyncIterator[DockerBackend]:
    backend = DockerBackend(run)
    try:
        yield backend
    finally:
        await backend.close()


def of_run(engine: Any, run: str) -> list[str]:
    return [one["Names"][0].lstrip("/") for one in engine.containers(all=True, filters={"label": f"{RUN}={run}"})]


def gone(engine: Any, run: str, timeout_s: float) -> bool:
    ends = time.monotonic() + timeout_s
    while of_run(engine, run):
        if time.monotonic() > ends:
            return False
        time.sleep(0.1)
    return True


def stray(engine: Any, run: str, **changed: str) -> str:
    """Create a container as a dead owner left it, in which no guest agent ends it; return its name."""
    name = f"turnwise-{uuid4().hex[:16]}"
    engine.create_container(
        IMAGE, entrypoint=["sleep"], command=["600"], name=name, labels={**labels(run, 600.0), **changed}
    )
    return name


def test_every_container_is_hardened(engine: Any) -> None:
    async def work() -> Any:
        async with opened() as backend:
            sandbox = await backend.start(SPEC)
            about = engine.inspect_container(sandbox.id)
            assert sandbox.digest == about["Image"]
            await sandbox.close()
            return about

    about = asyncio.run(work())
    host, config = about["HostConfig"], about["Config"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Memory"] == host["MemorySwap"] == 160 << 20
    assert host["NanoCpus"] == 500_000_000
    assert host["PidsLimit"] == 48
    assert host["CapDrop"] == ["ALL"]
    assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == set(CAPABILITIES)
    assert host["SecurityOpt"] == ["no-new-privileges:true", f"seccomp={profile()}"]
    assert host["Privileged"] is False
    assert host["AutoRemove"] is True
    assert host["IpcMode"] == "private"
    assert host["PidMode"] == ""
    assert host["UsernsMode"] != "host"
    assert host["LogConfig"]["Type"] == "none"
    assert not host["Devices"]
    assert not host["PortBindings"]
    limits = {one["Name"]: (one["Soft"], one["Hard"]) for one in host["Ulimits"]}
    assert limits == {"nofile": (1024, 4096), "core": (0, 0)}
    for place, size in {"/workspace": 16, "/tmp": 16, "/dev/shm": 8}.items():  # noqa: S108
        options = host["Tmpfs"][place].split(",")
        assert {f"size={size}m", "nr_inodes=512", "nosuid", "nodev"} <= set(options)
    assert len(host["Tmpfs"]) == 3
    assert {mount["Destination"]: mount["RW"] for mount in about["Mounts"]} == {
        "/run/turnwise": False,
        "/dev/pts": True,
    }
    assert host["Sysctls"] == {
        "net.ipv4.tcp_max_tw_buckets": "0",
        "kernel.shmall": "20480",
        "kernel.msgmni": "32",
        "kernel.msgmnb": "65536",
        "kernel.sem": "250 8192 32 128",
    }
    assert int(config["Labels"][UID]) >= 1_900_000_000
    assert config["Hostname"] == "sandbox"
    assert not [name for name in config["Env"] or () if not name.startswith("PATH=")]
    assert list(about["NetworkSettings"]["Networks"]) == ["none"]


def test_a_start_that_exceeds_its_timeout_fails_and_leaves_nothing(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = f"slow-{uuid4().hex[:8]}"
    monkeypatch.setattr("turnwise.sandbox.backends.docker.START_TIMEOUT_S", 0.02)

    async def work() -> None:
        async with opened(run) as backend:
            with pytest.raises(StartFailed, match="no answer before the timeout"):
                await backend.start(SPEC)
            ends = time.monotonic() + 30
            await asyncio.sleep(0.3)
            while of_run(engine, run):
                assert time.monotonic() < ends
                await backend.reap()
                await asyncio.sleep(0.1)

    asyncio.run(work())


def test_a_container_that_the_engine_describes_incompletely_is_left_out_of_the_list() -> None:
    whole = {"Names": ["/turnwise-1"], "State": "running", "Image": "sha256:1", "Labels": labels("run", 60.0)}
    assert describe_container(whole) is not None
    for part in whole:
        assert describe_container({**whole, part: None}) is None or part in ("State", "Image")
    assert describe_container({**whole, "Names": []}) is None


def test_labels_name_the_run_and_the_owner(engine: Any) -> None:
    async def work() -> tuple[Any, list[SandboxInfo], str]:
        async with opened("a run") as backend:
            sandbox = await backend.start(SPEC)
            written = engine.inspect_container(sandbox.id)["Config"]["Labels"]
            listed = [one for one in await backend.list_sandboxes() if one.id == sandbox.id]
            await sandbox.close()
            return written, listed, sandbox.id

    written, listed, name = asyncio.run(work())
    expected = labels("a run", SPEC.ttl_s)
    assert {key: written[key] for key in (LABEL, RUN, HOST, PID, STARTED)} == {
        key: expected[key] for key in (LABEL, RUN, HOST, PID, STARTED)
    }
    assert abs(float(written[EXPIRES]) - float(expected[EXPIRES])) < 60
    assert [(one.id, one.status, one.reap_reason) for one in listed] == [(name, "running", "")]


def test_containers_of_a_killed_owner_end_by_themselves_and_others_stay(engine: Any) -> None:
    doomed, run = f"doomed-{uuid4().hex[:8]}", f"kept-{uuid4().hex[:8]}"

    async def work() -> float:
        async with opened(run) as backend:
            sandbox = await backend.start(SPEC)
            owner = await asyncio.create_subprocess_exec(
                sys.executable, "-c", OWNER, doomed, stdout=asyncio.subprocess.PIPE
            )
            assert owner.stdout is not None
            assert await owner.stdout.readline() == b"ready\n"
            assert len(of_run(engine, doomed)) == 2
            owner.kill()
            await owner.communicate()
            began = time.monotonic()
            assert await asyncio.to_thread(gone, engine, doomed, 60)
            took = time.monotonic() - began
            assert (await sandbox.exec(["true"], timeout_s=20)).exit_code == 0
            assert of_run(engine, run) == [sandbox.id]
            await sandbox.close()
            return took

    assert asyncio.run(work()) < 60
    assert gone(engine, run, 20)


def test_a_program_that_ends_while_a_sandbox_starts_prints_nothing() -> None:
    environment = {**os.environ, BACKEND_VARIABLE: "docker"}
    ended = subprocess.run([sys.executable, "-c", BRIEF], env=environment, capture_output=True, check=True)
    assert ended.stderr == b""


def test_reap_removes_only_dead_containers(engine: Any) -> None:
    run = f"sweep-{uuid4().hex[:8]}"
    child = subprocess.Popen(["true"])
    child.wait()
    dead = [
        stray(engine, run, **{PID: str(child.pid), STARTED: "1"}),
        stray(engine, run, **{STARTED: "1"}),
        stray(engine, run, **{HOST: "elsewhere/1", EXPIRES: f"{time.time() - 100:.0f}"}),
    ]
    alive = [
        stray(engine, run),
        stray(engine, run, **{HOST: "elsewhere/1", PID: "1", STARTED: "1"}),
        stray(engine, run, **{EXPIRES: "soon"}),
        stray(engine, run, **{STARTED: ""}),
        stray(engine, run, **{LABEL: "2"}),
    ]
    try:

        async def work() -> tuple[list[SandboxInfo], list[str]]:
            async with opened() as backend:
                listed = await backend.list_sandboxes()
                return listed, await backend.reap()

        listed, removed = asyncio.run(work())
        # Another pool on this machine may reap them first, so the returned names need not contain them.
        assert not set(alive) & set(removed)
        assert not {one.id for one in listed if one.reap_reason} & set(alive)
        assert not set(dead) & set(of_run(engine, run))
        assert set(of_run(engine, run)) == set(alive)
    finally:
        for name in of_run(engine, run):
            engine.remove_container(name, force=True)


def test_cancelled_start_leaves_nothing(engine: Any) -> None:
    run = f"late-{uuid4().hex[:8]}"

    async def work() -> None:
        async with opened(run) as backend:
            for wait in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
                starting = asyncio.create_task(backend.start(SPEC))
                await asyncio.sleep(wait)
                starting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await starting).close()
            ends = time.monotonic() + 60
            while of_run(engine, run):
                assert time.monotonic() < ends
                await asyncio.sleep(0.5)
                await backend.reap()
            assert list(backend.folder.iterdir()) == []

    asyncio.run(work())


def test_container_removed_by_the_engine_is_a_lost_sandbox(engine: Any) -> None:
    async def work() -> None:
        async with opened() as backend:
            sandbox = await backend.start(SPEC)
            waiting = asyncio.create_task(sandbox.exec(["sleep", "600"], timeout_s=600))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(engine.remove_container, sandbox.id, force=True)
            with pytest.raises(SandboxLost, match="the guest agent ended"):
                await waiting
            assert not sandbox.alive
            await sandbox.close()
            await backend.reap()

    asyncio.run(work())


def test_request_reports_an_out_of_memory_kill() -> None:
    async def work() -> None:
        async with opened() as backend:
            sandbox = await backend.start(SPEC)
            await sandbox.exec(["python3", "-c", EATER], timeout_s=5)
            done = await sandbox.request("/tmp/eater", b"", timeout_s=10)  # noqa: S108 - folder of the sandbox
            assert (done.stdout, done.oom) == (b"9", True)
            assert not (await sandbox.request("/tmp/nobody", b"", timeout_s=5)).oom  # noqa: S108
            await sandbox.close()

    asyncio.run(work())


def test_missing_engine_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(NoEngine, match=r"install docker\.io and start dockerd") as raised:
        DockerBackend("tests")
    assert "\n" not in str(raised.value)
    backend = make_backend("auto", allow_untrusted=True)
    assert backend.name == "local"
    asyncio.run(backend.close())


def test_without_an_engine_untrusted_specs_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")

    async def work() -> None:
        backend = make_backend("auto")
        with pytest.raises(NotTrusted, match=r"^no Docker engine answers .*start dockerd.* not declared trusted"):
            await backend.start(SPEC.model_copy(update={"trusted": False}))
        await backend.close()

    asyncio.run(work())


def test_host_identity_is_stable() -> None:
    assert this_host() == this_host()
    assert "/" in this_host()


@pytest.mark.soak
def test_two_hundred_concurrent_requests_are_served() -> None:
    async def main() -> None:
        pool = await Pool(DockerBackend("crowd"), capacity=48, warm=0).open()

        async def one(number: int) -> str:
            sandbox = await pool.lease(SPEC, timeout_s=240)
            try:
                done = await sandbox.exec(["sh", "-c", f"echo {number}; sleep 0.5"], timeout_s=60)
                assert done.stdout == f"{number}\n".encode()
                return sandbox.id
            finally:
                pool.release(sandbox)

        try:
            names = await asyncio.gather(*map(one, range(200)))
            health = pool.health()
            assert health.leases == 200
            assert health.started <= pool.capacity
            assert len(set(names)) <= pool.capacity
            assert (health.start_failures, health.waiting) == (0, 0)
        finally:
            await pool.close()

    asyncio.run(main())
