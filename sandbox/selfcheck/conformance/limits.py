"""Conformance: timeout and output limit apply to a command and to every process that it started."""

import asyncio
from time import monotonic

from ...sandbox import Sandbox
from ..harness import Cases, expect, python, sh

KILL_LATENCY_MAX_S = 1.0
"""Maximum time from the timeout of a command to its result, on an idle machine."""
BUSY_FACTOR = 20
"""Extra allowance on a busy machine, in multiples of the duration of an empty command."""
TICK_DISTANCE_S = 0.1
"""Between two commands that must start in different clock ticks: a kill includes processes of the same tick."""
COUNT = "ps=0; for d in /proc/[0-9]*; do grep -qs {mark} $d/cmdline && ps=$((ps+1)); done; echo $ps"
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
"""

CASES = Cases()


async def left(sandbox: Sandbox, mark: str) -> int:
    """Return how many processes have ``mark`` in their command line; brackets exclude the search itself."""
    return int(await sh(sandbox, COUNT.format(mark=f"{mark[:-1]}[{mark[-1]}]")))


async def _allowed_s(sandbox: Sandbox) -> float:
    began = monotonic()
    await sh(sandbox, "true")
    return KILL_LATENCY_MAX_S + BUSY_FACTOR * (monotonic() - began)


async def _ends_at_timeout(sandbox: Sandbox, argv: list[str], timeout_s: float = 0.3) -> float:
    allowed, began = await _allowed_s(sandbox), monotonic()
    done = await sandbox.exec(argv, timeout_s=timeout_s)
    took = monotonic() - began
    expect(done.timed_out and done.exit_code == -9, f"returned {done.exit_code}, timed_out {done.timed_out}")
    expect(took < timeout_s + allowed, f"returned {took - timeout_s:.2f} s after its timeout")
    return (took - timeout_s) * 1e3


@CASES.add("timeout")
async def timeout(sandbox: Sandbox) -> str:
    """A command that exceeds its timeout is killed, even if it ignores signals, and its output is kept."""
    late = [
        await _ends_at_timeout(sandbox, argv)
        for argv in (
            ["sleep", "600"],
            ["sh", "-c", "trap '' TERM INT HUP QUIT; while :; do :; done"],
            ["sh", "-c", "kill -STOP $$"],
        )
    ]
    done = await sandbox.exec(["sh", "-c", "echo before; sleep 600"], timeout_s=1.5)
    expect(done.stdout == b"before\n", "the output before the timeout is lost")
    await sh(sandbox, "true")
    return f"asleep, busy and stopped; at most {max(late):.0f} ms late"


@CASES.add("timeout: children")
async def timeout_of_children(sandbox: Sandbox) -> str:
    """The children of a killed command are killed too: in the background, in other sessions, and orphans."""
    for mark, script in {
        "600.01": "sleep 600.01 & sleep 600.01 & wait",
        "600.02": "setsid sleep 600.02 & setsid sh -c 'sleep 600.02; :' & sleep 600",
        "600.03": "(setsid sh -c '(setsid sleep 600.03 &) &' &); sleep 600",
        "600.04": "nohup setsid sleep 600.04 >/dev/null 2>&1 & sleep 600",
    }.items():
        await _ends_at_timeout(sandbox, ["sh", "-c", script])
        expect(await left(sandbox, mark) == 0, f"a child is still alive: {script}")
    await _ends_at_timeout(sandbox, ["sh", "-c", f"python3 -c '{DAEMON}' 600.05; sleep 600"], 0.5)
    expect(await left(sandbox, "600.05") == 0, "a daemon is still alive")
    return "background, setsid, double fork, daemon"


@CASES.add("output limit", output_kib=64)
async def output_limit(sandbox: Sandbox) -> str:
    """A command that exceeds the output limit on stdout or stderr is killed; output up to the limit is kept."""
    took = []
    for script in ("yes", "yes >&2", "setsid yes & yes", "yes & sleep 600"):
        began = monotonic()
        done = await sandbox.exec(["sh", "-c", script], timeout_s=10)
        took.append((monotonic() - began) * 1e3)
        expect(
            done.output_limit_exceeded and not done.timed_out,
            f"{script}: output_limit_exceeded {done.output_limit_exceeded}, timed_out {done.timed_out}",
        )
        most = max(len(done.stdout), len(done.stderr))
        expect(most == 64 << 10, f"{script}: {most} bytes were returned")
        expect(await left(sandbox, "yes") == 0, f"{script}: still alive")
    done = await sandbox.exec(["yes"], timeout_s=10, output_kib=1)
    expect(len(done.stdout) == 1024 and done.output_limit_exceeded, "the limit of a single command does not hold")
    return f"64 KiB; killed in {max(took):.0f} ms"


@CASES.add("output at its limit", output_kib=64)
async def output_at_limit(sandbox: Sandbox) -> str:
    """Output of exactly the limit is allowed; one byte more is not."""
    script = "head -c {0} /dev/zero; head -c {0} /dev/zero >&2"
    done = await sandbox.exec(["sh", "-c", script.format(64 << 10)], timeout_s=10)
    expect(not done.output_limit_exceeded and done.exit_code == 0, "output of exactly the limit is refused")
    expect(len(done.stdout) == len(done.stderr) == 64 << 10, "part of the output is missing")
    done = await sandbox.exec(["sh", "-c", script.format((64 << 10) + 1)], timeout_s=10)
    expect(done.output_limit_exceeded and len(done.stdout) == 64 << 10, "one byte over the limit is allowed")
    return "64 KiB on each"


@CASES.add("held pipe")
async def held_pipe(sandbox: Sandbox) -> str:
    """A result does not wait for a background child that holds the command's output open."""
    allowed, began = await _allowed_s(sandbox), monotonic()
    done = await sandbox.exec(["sh", "-c", "sleep 600.11 & echo done"], timeout_s=20)
    took = monotonic() - began
    expect(done.exit_code == 0 and done.stdout == b"done\n", f"returned {done.exit_code} {done.stdout!r}")
    expect(took < allowed, f"returned after {took:.1f} s")
    expect(await left(sandbox, "600.11") == 1, "the background child was killed")
    return f"{took * 1e3:.0f} ms"


@CASES.add("background")
async def background(sandbox: Sandbox) -> str:
    """A background process survives later commands, including killed ones, until the reset."""
    await sh(sandbox, "sleep 600.21 >/dev/null 2>&1 &")
    await asyncio.sleep(TICK_DISTANCE_S)
    await _ends_at_timeout(sandbox, ["sh", "-c", "sleep 600.22 & sleep 600"])
    await sandbox.exec(["yes"], timeout_s=10)
    expect(await left(sandbox, "600.22") == 0, "a child of the killed command is still alive")
    expect(await left(sandbox, "600.21") == 1, "the background process of an earlier command was killed")
    await sandbox.reset(timeout_s=10)
    expect(await left(sandbox, "600.21") == 0, "the background process survived the reset")
    return "until the reset"


@CASES.add("orphans", pids=64)
async def zombies(sandbox: Sandbox) -> str:
    """Orphans are reaped: many in a row leave no zombies."""
    for _ in range(4):
        await sh(sandbox, "for i in $(seq 40); do (true &) ; done; sleep 0.05")
    dead = await python(
        sandbox,
        "import glob\nn=0\nfor p in glob.glob('/proc/[0-9]*/stat'):\n"
        "    try: n+=open(p).read().rpartition(')')[2].split()[0]=='Z'\n    except OSError: pass\nprint(n)",
    )
    expect(int(dead) < 8, f"{dead} zombies remain")
    return "160 orphans"
