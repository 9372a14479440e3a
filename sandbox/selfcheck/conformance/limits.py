"""Conformance: a command is held to its deadline and its output cap, with everything that it started."""

import asyncio
from time import monotonic

from ...sandbox import Sandbox
from ..harness import Case, MakeSandbox, expect, python, sh

RETURNS = 1.0
"""Seconds beyond its deadline within which a command must have been ended, on a machine that is not busy."""
BUSY = 20
"""On one that is: so many times what a command of nothing takes are added."""
SETTLES = 0.1
COUNT = "ps=0; for d in /proc/[0-9]*; do grep -qs {mark} $d/cmdline && ps=$((ps+1)); done; echo $ps"
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
"""


async def left(sandbox: Sandbox, mark: str) -> int:
    """How many processes have ``mark`` in their command line; it is broken up, so that the search is not its own."""
    return int(await sh(sandbox, COUNT.format(mark=f"{mark[:-1]}[{mark[-1]}]")))


async def _allowed(sandbox: Sandbox) -> float:
    began = monotonic()
    await sh(sandbox, "true")
    return RETURNS + BUSY * (monotonic() - began)


async def _ends_at_deadline(sandbox: Sandbox, argv: list[str], timeout_s: float = 0.3) -> float:
    allowed, began = await _allowed(sandbox), monotonic()
    done = await sandbox.exec(argv, timeout_s=timeout_s)
    took = monotonic() - began
    expect(done.timed_out and done.exit_code == -9, f"came back as {done.exit_code}, timed_out {done.timed_out}")
    expect(took < timeout_s + allowed, f"returned {took - timeout_s:.2f} s after its deadline")
    return (took - timeout_s) * 1e3


async def timeout_s(make: MakeSandbox) -> str:
    """A command that overruns its deadline is killed, whatever it ignores, and what it printed is kept."""
    sandbox = await make()
    late = [
        await _ends_at_deadline(sandbox, argv)
        for argv in (
            ["sleep", "600"],
            ["sh", "-c", "trap '' TERM INT HUP QUIT; while :; do :; done"],
            ["sh", "-c", "kill -STOP $$"],
        )
    ]
    done = await sandbox.exec(["sh", "-c", "echo before; sleep 600"], timeout_s=1.5)
    expect(done.stdout == b"before\n", "what was printed before the deadline is lost")
    await sh(sandbox, "true")
    return f"asleep, busy and stopped; {max(late):.0f} ms late at most"


async def with_children(make: MakeSandbox) -> str:
    """Its children go too: in the background, in a session of their own, and those of no parent."""
    sandbox = await make()
    for mark, script in {
        "600.01": "sleep 600.01 & sleep 600.01 & wait",
        "600.02": "setsid sleep 600.02 & setsid sh -c 'sleep 600.02; :' & sleep 600",
        "600.03": "(setsid sh -c '(setsid sleep 600.03 &) &' &); sleep 600",
        "600.04": "nohup setsid sleep 600.04 >/dev/null 2>&1 & sleep 600",
    }.items():
        await _ends_at_deadline(sandbox, ["sh", "-c", script])
        expect(await left(sandbox, mark) == 0, f"some of it lives on: {script}")
    await _ends_at_deadline(sandbox, ["sh", "-c", f"python3 -c '{DAEMON}' 600.05; sleep 600"], 0.5)
    expect(await left(sandbox, "600.05") == 0, "a daemon of its own lives on")
    return "background, setsid, double fork, daemon"


async def output_cap(make: MakeSandbox) -> str:
    """A flood is stopped in the sandbox at the cap, on either output, and what came before is kept."""
    sandbox = await make(output_kib=64)
    took = []
    for script in ("yes", "yes >&2", "setsid yes & yes", "yes & sleep 600"):
        began = monotonic()
        done = await sandbox.exec(["sh", "-c", script], timeout_s=10)
        took.append((monotonic() - began) * 1e3)
        expect(
            done.output_limit_exceeded and not done.timed_out,
            f"{script}: flooded {done.output_limit_exceeded}, timed_out {done.timed_out}",
        )
        most = max(len(done.stdout), len(done.stderr))
        expect(most == 64 << 10, f"{script}: {most} bytes came")
        expect(await left(sandbox, "yes") == 0, f"{script}: lives on")
    done = await sandbox.exec(["yes"], timeout_s=10, output_kib=1)
    expect(len(done.stdout) == 1024 and done.output_limit_exceeded, "a cap of one command's own is not kept")
    return f"64 KiB; ended in {max(took):.0f} ms"


async def output_at_cap(make: MakeSandbox) -> str:
    """Output of just the cap is no flood; a byte more is."""
    sandbox = await make(output_kib=64)
    script = "head -c {0} /dev/zero; head -c {0} /dev/zero >&2"
    done = await sandbox.exec(["sh", "-c", script.format(64 << 10)], timeout_s=10)
    expect(not done.output_limit_exceeded and done.exit_code == 0, "just the cap is called a flood")
    expect(len(done.stdout) == len(done.stderr) == 64 << 10, "something is missing")
    done = await sandbox.exec(["sh", "-c", script.format((64 << 10) + 1)], timeout_s=10)
    expect(done.output_limit_exceeded and len(done.stdout) == 64 << 10, "a byte over the cap is no flood")
    return "64 KiB on each"


async def held_pipe(make: MakeSandbox) -> str:
    """A background child that holds the command's output is not waited for."""
    sandbox = await make()
    allowed, began = await _allowed(sandbox), monotonic()
    done = await sandbox.exec(["sh", "-c", "sleep 600.11 & echo done"], timeout_s=20)
    took = monotonic() - began
    expect(done.exit_code == 0 and done.stdout == b"done\n", f"came back as {done.exit_code} {done.stdout!r}")
    expect(took < allowed, f"returned after {took:.1f} s")
    expect(await left(sandbox, "600.11") == 1, "the background child is gone")
    return f"{took * 1e3:.0f} ms"


async def background_lives(make: MakeSandbox) -> str:
    """A background process lives on through later commands, killed ones too, until the reset."""
    sandbox = await make()
    await sh(sandbox, "sleep 600.21 >/dev/null 2>&1 &")
    await asyncio.sleep(SETTLES)
    await _ends_at_deadline(sandbox, ["sh", "-c", "sleep 600.22 & sleep 600"])
    await sandbox.exec(["yes"], timeout_s=10)
    expect(await left(sandbox, "600.22") == 0, "a child of the killed command lives on")
    expect(await left(sandbox, "600.21") == 1, "the background process of an earlier command is gone")
    await sandbox.reset(timeout_s=10)
    expect(await left(sandbox, "600.21") == 0, "it lives on through the reset")
    return "until the reset"


async def zombies(make: MakeSandbox) -> str:
    """Orphans are reaped: many in a row use nothing up."""
    sandbox = await make(pids=64)
    for _ in range(4):
        await sh(sandbox, "for i in $(seq 40); do (true &) ; done; sleep 0.05")
    dead = await python(
        sandbox,
        "import glob\nn=0\nfor p in glob.glob('/proc/[0-9]*/stat'):\n"
        "    try: n+=open(p).read().rpartition(')')[2].split()[0]=='Z'\n    except OSError: pass\nprint(n)",
    )
    expect(int(dead) < 8, f"{dead} zombies are left")
    return "160 orphans"


LIMITS: dict[str, Case] = {
    "deadline": timeout_s,
    "deadline: children": with_children,
    "output cap": output_cap,
    "output at its cap": output_at_cap,
    "held pipe": held_pipe,
    "background": background_lives,
    "orphans": zombies,
}
