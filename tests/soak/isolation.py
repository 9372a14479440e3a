"""Forty sandboxes at once, of which one exhausts every limit of the kernel in turn; the others must notice nothing.

python -m turnwise.tests.soak.isolation --sandboxes 40

The last line is a JSON summary. Meanwhile, the kernel memory of this machine that no process holds (slab, and buffers
of TCP and UDP) must not grow by more than the limit of the attacking sandbox. Other load on the machine adds to it.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.errors import SandboxError
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.selfcheck.attacks.kernel import BUFFERS, HOLD, SIBLING_UNITS, WAITING
from turnwise.sandbox.spec import SandboxSpec

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, pids=64, cpus=1.0)
NOISE_MIB = 64
"""Growth of the machine's kernel memory by other causes."""
SAMPLE_INTERVAL_S = 0.05
SHARED = ("queue", "inotify", "signals", "pipe", "terminal")
"""Kinds of ``HOLD`` that every other sandbox uses during each attack."""
FLOOD = """
import os, resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kind, held, piece = sys.argv[1], [], b"x" * 60000
for _ in range(int(sys.argv[2]) - 1):
    if os.fork() == 0:
        break
try:
    server = socket.create_server(("127.0.0.1", 0), backlog=4096)
    while len(held) < 4000:
        if kind == "netlink":
            one = socket.socket(16, socket.SOCK_RAW, 2)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
            one.bind((0, 0))
            other = socket.socket(16, socket.SOCK_RAW, 2)
            target = (one.getsockname()[0], 0)
        elif kind == "unix":
            one, other = socket.socketpair()
            other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
            target = None
        else:
            one, other, target = socket.create_connection(server.getsockname()), server.accept()[0], None
        held += [one, other]
        other.setblocking(False)
        try:
            while kind != "connections":
                other.sendto(piece, target) if target else other.send(piece)
        except BlockingIOError:
            pass
except OSError as error:
    print(error)
print(len(held), flush=True)
"""
ATTACKS: dict[str, list[str]] = {
    "queues": [HOLD, "queue", "512", "1", "600"],
    "inotify": [HOLD, "inotify", "512", "4", "600"],
    "signals": [HOLD, "signals", "200000", "1", "600"],
    "pipes": [HOLD, "pipe", "1500", "4", "600"],
    "terminals": [HOLD, "terminal", "1500", "4", "600"],
    "aio": [HOLD, "aio", "4", "1", "0"],
    "netlink": [FLOOD, "netlink", "4"],
    "unix sockets": [FLOOD, "unix", "4"],
    "connections": [FLOOD, "connections", "56"],
    "unaccepted": [WAITING],
    "buffers": [BUFFERS, "300", "4000"],
    "forks": ["import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"],
    "memory": ["held = []\nwhile True: held.append(bytearray(b'x') * (4 << 20))"],
}


def kernel_mib() -> int:
    """Return the memory of this machine in unreclaimable slab and in buffers of TCP and UDP, in MiB."""
    memory, sockets = (Path(name).read_text().splitlines() for name in ("/proc/meminfo", "/proc/net/sockstat"))
    slab_kib = next(int(line.split()[1]) for line in memory if line.startswith("SUnreclaim:"))
    pages = [int(line.split("mem ")[1]) for line in sockets if line[:4] in ("TCP:", "UDP:")]
    return (slab_kib >> 10) + (sum(pages) >> 8)


async def peak_until(over: asyncio.Event) -> int:
    """Return the highest ``kernel_mib`` until the event."""
    peak = 0
    while not over.is_set():
        peak = max(peak, kernel_mib())
        await asyncio.sleep(SAMPLE_INTERVAL_S)
    return peak


async def use(sandbox: Sandbox, kinds: tuple[str, ...]) -> str:
    """Use every kind of resource in a sandbox; return what it did not get, empty if it got all."""
    for kind in kinds:
        done = await sandbox.exec(["python3", "-c", HOLD, kind, str(SIBLING_UNITS), "1", "0"], timeout_s=60)
        if done.stdout.split() != [str(SIBLING_UNITS).encode()]:
            return f"{kind}: {done.stdout[-80:]!r} {done.stderr[-200:]!r}"
    return ""


async def attack(attacker: Sandbox, others: list[Sandbox], argv: list[str]) -> dict[str, Any]:
    """Run one attack while every other sandbox uses every resource; return what was measured."""
    over, before = asyncio.Event(), kernel_mib()
    peak = asyncio.create_task(peak_until(over))
    began, lost = monotonic(), ""
    try:
        done = await attacker.exec(["python3", "-c", *argv], timeout_s=10)
        ended = "timeout" if done.timed_out else "memory" if done.oom else done.stdout.decode(errors="replace").strip()
    except SandboxError as error:
        ended, lost = "lost", str(error)
    attack_s = monotonic() - began
    found = await asyncio.gather(*(use(one, SHARED) for one in others), return_exceptions=True)
    over.set()
    return {
        "ended": ended[-80:],
        "lost": lost,
        "attack_s": round(attack_s, 1),
        "others_s": round(monotonic() - began - attack_s, 1),
        "kernel_growth_mib": await peak - before,
        "disturbed": [str(one) for one in found if one],
    }


async def isolation(count: int) -> dict[str, Any]:
    """Start the sandboxes, run every attack, and return the summary; ``problems`` is empty if all is contained."""
    backend = DockerBackend("soak")
    results: dict[str, Any] = {}
    problems: list[str] = []
    try:
        sandboxes = [await backend.start(SPEC) for _ in range(count)]
        for name, argv in ATTACKS.items():
            results[name] = found = await attack(sandboxes[0], sandboxes[1:], argv)
            print(name, json.dumps(found), file=sys.stderr, flush=True)
            problems += [f"{name}: {one}" for one in found["disturbed"]]
            if found["kernel_growth_mib"] > SPEC.memory_mib + NOISE_MIB:
                problems.append(f"{name}: the kernel's memory grew by {found['kernel_growth_mib']} MiB")
            try:
                await sandboxes[0].reset(timeout_s=20)
            except SandboxError:
                await sandboxes[0].close()
                sandboxes[0] = await backend.start(SPEC)
        for sandbox in sandboxes:
            await sandbox.close()
    finally:
        await backend.close()
    return {"sandboxes": count, "memory_mib": SPEC.memory_mib, "attacks": results, "problems": problems}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=40)
    summary = asyncio.run(isolation(parser.parse_args().sandboxes))
    print(json.dumps(summary))
    sys.exit(bool(summary["problems"]))
