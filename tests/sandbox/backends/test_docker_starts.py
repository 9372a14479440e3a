"""Containers of other images and runtimes start with the same limits, or fail with the reason."""

import asyncio
import io
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import docker
import pytest
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.backends.ownership import LABEL
from turnwise.sandbox.backends.protocol import UnknownBackend
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.errors import NoImage, StartFailed
from turnwise.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.docker

SPEC = SandboxSpec(memory_mib=160, cpus=0.5, pids=48, disk_mib=16, inodes=512)


@pytest.fixture
def engine() -> Iterator[Any]:
    with closing(docker.APIClient(**docker.utils.kwargs_from_env())) as client:
        yield client


def test_commands_leave_the_processor_to_the_guest_agent_and_terminals_are_limited_under_a_named_runtime() -> None:
    async def work() -> None:
        backend = DockerBackend("tests", runtime="runc")
        sandbox = await backend.start(SPEC)
        assert (await sandbox.exec(["nice"], timeout_s=10)).stdout == b"19\n"
        assert b",max=32 " in (await sandbox.exec(["grep", "devpts", "/proc/mounts"], timeout_s=10)).stdout
        await sandbox.close()
        await backend.close()

    asyncio.run(work())
    with pytest.raises(
        UnknownBackend, match=r"no runtime `runk` \(did you mean 'runc'\?\): add it to the `runtimes` of"
    ):
        make_backend("auto", options={"runtime": "runk"})
    with pytest.raises(UnknownBackend, match=r"option `runtime` of the sandbox backend `docker`"):
        make_backend("docker", options={"runtime": ""})


def test_an_image_without_python_is_reported_before_the_timeout(engine: Any) -> None:
    name = f"turnwise-tests-{uuid4().hex[:8]}"
    with tarfile.open(fileobj=(empty := io.BytesIO()), mode="w"):
        pass
    engine.import_image_from_data(empty.getvalue(), repository=name)
    try:

        async def work() -> None:
            backend = DockerBackend("tests")
            with pytest.raises(StartFailed, match=r"the image needs `python3` of version 3\.9 or newer"):
                await backend.start(SPEC.model_copy(update={"image": name}))
            await backend.close()

        began = time.monotonic()
        asyncio.run(work())
        assert time.monotonic() - began < 20
    finally:
        engine.remove_image(name, force=True)


def test_failed_starts_report_the_reason(engine: Any) -> None:
    async def work() -> None:
        backend = DockerBackend("tests")
        with pytest.raises(NoImage, match="turnwise sandbox build"):
            await backend.start(SPEC.model_copy(update={"image": "turnwise/none:none"}))
        await backend.close()
        other = DockerBackend("tests", runtime="io.containerd.none.v1")
        with pytest.raises(StartFailed, match=r"io\.containerd\.none\.v1"):
            await other.start(SPEC)
        assert list(other.folder.iterdir()) == []
        await other.close()

    asyncio.run(work())
    assert engine.ping()


def test_the_volume_of_terminals_is_labeled_and_a_forgotten_one_is_reaped(engine: Any) -> None:
    forgotten = engine.create_volume(labels={LABEL: "1"})["Name"]
    other = engine.create_volume()["Name"]

    async def work() -> Any:
        backend = DockerBackend("tests")
        sandbox = await backend.start(SPEC)
        mounts = engine.inspect_container(sandbox.id)["Mounts"]
        await backend.reap()
        name = next(one["Name"] for one in mounts if one["Destination"] == "/dev/pts")
        labels = engine.inspect_volume(name)["Labels"]
        await sandbox.close()
        await backend.close()
        return labels

    try:
        assert asyncio.run(work()) == {LABEL: "1"}
        left = {one["Name"] for one in engine.volumes()["Volumes"]}
        assert forgotten not in left
        assert other in left
    finally:
        engine.remove_volume(other)


def test_processes_of_closed_streams_do_not_count_towards_the_limit() -> None:
    async def work() -> None:
        backend = DockerBackend("tests")
        sandbox = await backend.start(SPEC.model_copy(update={"pids": 12}))
        for _ in range(24):
            (await sandbox.open_process(["cat"], timeout_s=5)).close()
            await asyncio.sleep(0.01)
        await sandbox.close()
        await backend.close()

    asyncio.run(work())
