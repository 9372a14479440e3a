"""Measure the cost of a sandbox on the Docker backend: lease, command, reset, cold start and memory.

The floor (fork and exec, ``runc run``) and the peer (``exec_run`` of the Docker SDK) are measured in the same run.
Times are medians in milliseconds. Prints one JSON line last. Requires a Docker engine and the image ``code``.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import docker
from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.cluster.client import ClusterProvider
from turnwise.sandbox.cluster.node import NodeSupervisor, SandboxSettings
from turnwise.sandbox.images.reference import image_reference
from turnwise.sandbox.pool import Pool
from turnwise.sandbox.provider import InProcessProvider
from turnwise.sandbox.sandbox import Sandbox
from turnwise.trainer.cluster.runtime import start_ray, stop_ray

SPEC = SandboxSpec(memory_mib=128, disk_mib=16)
TRUE = ["true"]
CONCURRENCIES = (1, 8, 32)


def timed(work: Callable[[], Any], times: int) -> float:
    """Return the median duration of a blocking call, in milliseconds."""
    taken = []
    for _ in range(times):
        start = perf_counter()
        work()
        taken.append(perf_counter() - start)
    return round(1e3 * median(taken), 3)


async def timed_async(work: Callable[[], Awaitable[Any]], times: int) -> float:
    """Return the median duration of an awaitable call, in milliseconds."""
    taken = []
    for _ in range(times):
        start = perf_counter()
        await work()
        taken.append(perf_counter() - start)
    return round(1e3 * median(taken), 3)


def floors(times: int) -> dict[str, float]:
    """Return the time of a command without a container, and of a container without an engine."""
    found = {"fork_exec_ms": timed(lambda: subprocess.run(TRUE, check=True), times)}
    runc = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin")
    if runc is None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([runc, "spec", "--bundle", folder], check=True)
        file = Path(folder) / "config.json"
        config = json.loads(file.read_text())
        root = Path(folder) / "rootfs"
        for name in ("usr", "proc", "dev", "sys"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        config["root"] = {"path": str(root), "readonly": True}
        config["process"] |= {"args": TRUE, "terminal": False}
        config["mounts"] = [one for one in config["mounts"] if one["type"] != "cgroup"]
        config["mounts"] += [{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}]
        file.write_text(json.dumps(config))
        command = [runc, "run", "--bundle", folder, f"turnwise-bench-{os.getpid()}"]
        found["runc_run_ms"] = timed(
            lambda: subprocess.run(command, check=True, capture_output=True), max(5, times // 10)
        )
    return found


def docker_sdk(times: int) -> dict[str, float]:
    """Return the time of ``exec_run`` in a container of the same image."""
    client = docker.from_env()
    container = client.containers.run(image_reference(SPEC.image), ["sleep", "600"], detach=True, network_mode="none")
    try:
        return {"exec_run_ms": timed(lambda: container.exec_run(TRUE), max(10, times // 5))}
    finally:
        container.remove(force=True)
        client.close()


def resident_mib(name: str) -> float:
    """Return the proportional set size of a sandbox's processes, in MiB."""
    client = docker.APIClient()
    rows = client.top(name)["Processes"]
    client.close()
    total = 0
    for row in rows:
        lines = Path(f"/proc/{row[1]}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return round(total / 1024, 1)


async def commands_per_second(pool: Pool, count: int, seconds: float = 3.0) -> float:
    """Return the commands per second of ``count`` sandboxes together."""
    boxes = [await pool.lease(SPEC, timeout_s=120) for _ in range(count)]
    ends = perf_counter() + seconds

    async def busy(box: Sandbox) -> int:
        done = 0
        while perf_counter() < ends:
            await box.exec(TRUE, timeout_s=10)
            done += 1
        return done

    done = sum(await asyncio.gather(*map(busy, boxes)))
    for box in boxes:
        pool.release(box)
    return round(done / seconds, 1)


async def pooled(times: int) -> dict[str, Any]:
    """Return the figures of a pool: cold start, round trip, memory, reset, warm lease and throughput."""
    backend = DockerBackend("benchmark")
    found: dict[str, Any] = {}
    cold = []
    for _ in range(5):
        start = perf_counter()
        box = await backend.start(SPEC)
        cold.append(perf_counter() - start)
        await box.close()
    found["cold_start_ms"] = round(1e3 * median(cold), 1)
    pool = await Pool(backend, capacity=max(CONCURRENCIES), warm=1).open()
    try:
        box = await pool.lease(SPEC, timeout_s=60)
        found["round_trip_ms"] = await timed_async(lambda: box.exec(TRUE, timeout_s=10), times)
        found["memory_mib"] = resident_mib(box.id)

        async def used() -> float:
            await box.exec(["sh", "-c", "echo x > file; mkdir -p a/b; echo y > a/b/c; sleep 100 &"], timeout_s=10)
            start = perf_counter()
            await box.reset(timeout_s=10)
            return perf_counter() - start

        found["reset_ms"] = round(1e3 * median([await used() for _ in range(times // 5)]), 3)
        pool.release(box)
        leases = []
        for _ in range(times):
            await asyncio.sleep(0.01)
            start = perf_counter()
            box = await pool.lease(SPEC, timeout_s=60)
            leases.append(perf_counter() - start)
            pool.release(box)
        found["warm_lease_ms"] = round(1e3 * median(leases), 3)
        found["commands_per_second"] = {str(count): await commands_per_second(pool, count) for count in CONCURRENCIES}
    finally:
        await pool.close()
    return found


async def through_ray(times: int) -> dict[str, float]:
    """Return the times of a round trip and a lease through the node's Ray actor.

    Round trips alternate with those to a sandbox held by this process, as by an environment without Ray.
    """
    start_ray()
    supervisor = NodeSupervisor("benchmark", SandboxSettings(backend="docker", max_per_node=4, warm=2))
    supervisor.open()
    try:
        source, here = ClusterProvider("benchmark"), InProcessProvider("docker", capacity=2)

        def measure() -> dict[str, float]:
            with source.lease(SPEC, timeout_s=60) as far, here.lease(SPEC, timeout_s=60) as near:
                trips: dict[str, list[float]] = {"ray_round_trip_ms": [], "here_round_trip_ms": []}
                for _ in range(times):
                    for taken, box in zip(trips.values(), (far, near), strict=True):
                        start = perf_counter()
                        box.exec(TRUE, timeout_s=10)
                        taken.append(perf_counter() - start)

            def lease_once() -> None:
                source.lease(SPEC, timeout_s=60).release()

            found = {name: round(1e3 * median(taken), 3) for name, taken in trips.items()}
            found["ray_adds_ms"] = round(found["ray_round_trip_ms"] - found["here_round_trip_ms"], 3)
            return found | {"ray_lease_ms": timed(lease_once, times // 5)}

        return await asyncio.to_thread(measure)
    finally:
        await asyncio.to_thread(here.close)
        await supervisor.close()
        stop_ray()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=300)
    times = options.parse_args().times
    found = {"benchmark": "sandbox", **floors(times), **docker_sdk(times), **asyncio.run(pooled(times))}
    found |= asyncio.run(through_ray(times))
    found["exec_run_over_round_trip"] = round(found["exec_run_ms"] / found["round_trip_ms"], 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
