"""Attacks that exhaust resources that a sandbox shares with the machine: processes, memory, disk, output, cpu."""

from ...backends.protocol import Containment
from ...spec import SHM_MIB
from ..attack import AttackContext, Attacks, Work
from ..harness import expect, python, sh

SLACK_MIB = 2
BOMB = "b() { b | b & }; b; sleep 60"
FORKS = """
import os, time
made = 0
while made < 1000:
    try:
        if os.fork() == 0:
            time.sleep(60)
    except OSError:
        break
    made += 1
print(made)
"""
EAT = """
import sys, time
step, most = 4 << 20, int(sys.argv[1]) << 20
held = []
while len(held) * step < most:
    held.append(bytearray(b"x") * step)
    print(len(held) * step >> 20, flush=True)
time.sleep(float(sys.argv[2]))
print("held")
"""
HIDE = """
import os, sys, time
try:
    open("/proc/self/oom_score_adj", "w").write("0")
except OSError:
    pass
step, many, each = 128 << 10, int(sys.argv[1]), int(sys.argv[2]) << 20
for _ in range(many):
    if os.fork() == 0:
        held = []
        while len(held) * step < each:
            held.append(bytearray(b"x") * step)
            time.sleep(0.001)
        time.sleep(0.5)
        os._exit(0)
time.sleep(1.5)
"""
FILL = """
import sys
done, piece = 0, b"x" * (1 << 20)
try:
    with open(sys.argv[1] + "/full", "wb", buffering=0) as file:
        while done < int(sys.argv[2]) << 20:
            done += file.write(piece)
except OSError:
    pass
print(done / (1 << 20))
"""
TOUCH = """
import sys
made = 0
try:
    for made in range(int(sys.argv[2])):
        open(f"{sys.argv[1]}/{made}", "w").close()
except OSError:
    pass
print(made)
"""
SEGMENTS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype, libc.shmat.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
libc.shmdt.argtypes, libc.shmget.argtypes = (ctypes.c_void_p,), (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
for made in range(int(sys.argv[1])):
    one = libc.shmget(0, 1 << 20, 0o1600)
    where = libc.shmat(one, None, 0)
    if one < 0 or where in (None, ctypes.c_void_p(-1).value):
        break
    ctypes.memset(where, 1, 1 << 20)
    libc.shmdt(where)
    print(made + 1, flush=True)
"""
MESSAGES = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.msgsnd.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
text, kept = ctypes.create_string_buffer(b"\\1" + bytes(7) + b"x" * 8192, 8200), 0
while kept < int(sys.argv[1]) << 20:
    queue = libc.msgget(0, 0o1600)
    if queue < 0:
        break
    before = kept
    while libc.msgsnd(queue, text, 8192, 0o4000) == 0:
        kept += 8192
    if before == kept:
        break
    if kept >> 20 > before >> 20:
        print(kept >> 20, flush=True)
"""
SEMAPHORES = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
count = min(16000, int(open("/proc/sys/kernel/sem").read().split()[0]))
held = 0
for _ in range(int(sys.argv[1]) * 16000 // count):
    if libc.semget(0, count, 0o1600) < 0:
        break
    before, held = held, held + count
    if held // 16000 > before // 16000:
        print(held, flush=True)
print(held)
"""
QUEUES = """
import ctypes
rt, made = ctypes.CDLL("librt.so.1", use_errno=True), 0
while made < 2000 and rt.mq_open(b"/%d" % made, 0o102, 0o600, None) >= 0:
    made += 1
print(made)
"""
SPIN = """
import os, time
until = time.monotonic() + 1.5
for _ in range(7):
    if os.fork() == 0:
        while time.monotonic() < until: pass
        os._exit(0)
while time.monotonic() < until: pass
for _ in range(7): os.wait()
print(sum(os.times()[:4]) / 1.5)
"""

ATTACKS = Attacks()


async def _reached(context: AttackContext, argv: list[str]) -> tuple[int, str]:
    """Return the last number that a program printed, and how the program ended."""
    done = await context.sandbox.exec(argv, timeout_s=20)
    lines = done.stdout.split()
    how = "memory" if done.oom else "timeout" if done.timed_out else f"exit {done.exit_code}"
    return int(lines[-1]) if lines else 0, how


def _system_v(code: str, unit: str, units_per_mib: int = 1) -> Work:
    """Return an attack that exceeds the memory limit with System V objects, which no process holds."""

    async def work(context: AttackContext) -> str:
        limit = context.spec.memory_mib
        reached, how = await _reached(context, ["python3", "-c", code, str(int(1.5 * limit))])
        expect(reached <= units_per_mib * limit, f"{reached} {unit}, over {limit} MiB")
        await context.expect_usable()
        return f"{reached} {unit}, then {how}"

    return work


ATTACKS.add("shared memory bomb", Containment.TOTALS)(_system_v(SEGMENTS, "MiB"))
ATTACKS.add("message bomb", Containment.TOTALS)(_system_v(MESSAGES, "MiB"))
# 16,000 semaphores take about 1 MiB.
ATTACKS.add("semaphore bomb", Containment.TOTALS)(_system_v(SEMAPHORES, "semaphores", 16_000))


@ATTACKS.add("fork bomb")
async def fork_bomb(context: AttackContext) -> str:
    """Fork beyond the process limit, and leave a fork bomb to the timeout of its command."""
    made = int(await python(context.sandbox, FORKS))
    expect(made <= context.spec.pids, f"{made} processes, over {context.spec.pids}")
    await context.sandbox.reset(timeout_s=10)
    await context.sandbox.exec(["sh", "-c", BOMB], timeout_s=1.0)
    return f"{made} of {context.spec.pids} processes"


@ATTACKS.add("fork bomb left behind")
async def fork_bomb_left(context: AttackContext) -> str:
    """Leave a fork bomb in the background; the reset ends it."""
    await context.sandbox.exec(["sh", "-c", f"({BOMB}) >/dev/null 2>&1 & sleep 0.3"], timeout_s=5)
    await context.sandbox.reset(timeout_s=10)
    count = int(await sh(context.sandbox, "ls -d /proc/[0-9]* | wc -l"))
    expect(count < 10, f"{count} processes after the reset")
    return "ended by the reset"


@ATTACKS.add("memory bomb")
async def memory_bomb(context: AttackContext) -> str:
    """Exceed the memory limit in one process; its result reports the kill."""
    limit = context.spec.memory_mib
    reached, how = await _reached(context, ["python3", "-c", EAT, str(3 * limit), "0"])
    expect(reached <= limit, f"{reached} MiB, over {limit}")
    expect(how in ("memory", "exit 1"), f"the process ended by {how}")
    return f"{reached} of {limit} MiB, then {'killed' if how == 'memory' else 'refused'}"


@ATTACKS.add("memory of many processes", Containment.TOTALS)
async def memory_of_many(context: AttackContext) -> str:
    """Exceed the memory limit in several processes together."""
    each, many = int(context.spec.memory_mib * 0.6), 3
    script = f'for i in $(seq {many}); do python3 -c "$0" {each} 1 > $i & done; wait; cat * | grep -c held'
    done = await context.sandbox.exec(["sh", "-c", script, EAT], timeout_s=20)
    held = int(done.stdout.split()[-1]) * each
    expect(held <= context.spec.memory_mib, f"{held} MiB at once, over {context.spec.memory_mib}")
    return f"{held} MiB at once"


@ATTACKS.add("hiding from the killer", Containment.TOTALS, may_lose=True)
async def hiding(context: AttackContext) -> str:
    """Make the memory limit kill the guest agent instead of many small processes."""
    many = context.spec.pids - 8
    await context.sandbox.exec(
        ["python3", "-c", HIDE, str(many), str(2 * context.spec.memory_mib // many)], timeout_s=20
    )
    await context.expect_usable()
    return f"{many} processes; the sandbox is usable"


@ATTACKS.add("swap", Containment.TOTALS)
async def swap(context: AttackContext) -> str:
    """Use swap beyond the memory limit."""
    found = await sh(
        context.sandbox,
        "cd /sys/fs/cgroup; cat memory.swap.max 2>/dev/null && exit; cd memory || exit 1;"
        " expr $(cat memory.memsw.limit_in_bytes) - $(cat memory.limit_in_bytes) || [ $? = 1 ]",
    )
    expect(found == "0", f"{found} bytes")
    return "none"


@ATTACKS.add("disk fill")
async def disk_fill(context: AttackContext) -> str:
    """Fill every writable folder beyond its size, one after another and all together."""
    sizes = {"/workspace": context.spec.disk_mib, "/tmp": context.spec.disk_mib, "/dev/shm": SHM_MIB}  # noqa: S108
    sizes_mib = []
    for place, size in sizes.items():
        done = float(await python(context.sandbox, FILL, place, 4 * size + 8))
        expect(done <= size + SLACK_MIB, f"{place} took {done:.0f} MiB, over {size}")
        sizes_mib.append(f"{place} {done:.0f}")
    return f"MiB: {', '.join(sizes_mib)}"


@ATTACKS.add("inode fill", Containment.TOTALS)
async def inode_fill(context: AttackContext) -> str:
    """Create more files than allowed in every writable folder."""
    counts = []
    for place in ("/workspace", "/tmp", "/dev/shm"):  # noqa: S108
        made = int(await python(context.sandbox, TOUCH, place, 3 * context.spec.inodes))
        expect(made <= context.spec.inodes, f"{place} took {made} files, over {context.spec.inodes}")
        counts.append(f"{place} {made}")
    return ", ".join(counts)


@ATTACKS.add("message queue fill")
async def queue_fill(context: AttackContext) -> str:
    """Create many POSIX message queues."""
    made = int(await python(context.sandbox, QUEUES))
    expect(made < 2000, "2,000 queues were created")
    return f"{made} queues"


@ATTACKS.add("everything full", read_mib=SHM_MIB)
async def everything_full(context: AttackContext) -> str:
    """Fill every file system and the memory; files can still be read and commands run."""
    await disk_fill(context)
    await context.sandbox.exec(["python3", "-c", EAT, str(context.spec.memory_mib), "0"], timeout_s=20)
    for _ in range(3):
        found = await context.sandbox.read("/dev/shm/full", timeout_s=10)  # noqa: S108
        expect(len(found["."]) == SHM_MIB << 20, "part of the file is missing")
        await context.expect_usable()
    return "files are read, commands run"


@ATTACKS.add("output flood")
async def flood(context: AttackContext) -> str:
    """Print without end; the output limit stops the command inside the sandbox."""
    done = await context.sandbox.exec(["sh", "-c", "yes & yes >&2 & cat /dev/zero"], timeout_s=10)
    expect(done.output_limit_exceeded, "the command was not stopped")
    kept = len(done.stdout) + len(done.stderr)
    expect(kept <= 2 * context.spec.output_kib << 10, f"{kept} bytes were returned")
    return f"{kept >> 10} KiB returned, in {done.duration_s * 1e3:.0f} ms"


@ATTACKS.add("busy loops", Containment.TOTALS, cpus=0.25)
async def busy(context: AttackContext) -> str:
    """Use more cpu time than allotted in eight busy processes."""
    used = float(await python(context.sandbox, SPIN))
    expect(used <= context.spec.cpus * 1.4, f"{used:.1f} cpus, over {context.spec.cpus:g}")
    untested = "" if used > 0.7 * context.spec.cpus else ": the machine was too busy to reach the limit"
    return f"{used:.2f} of {context.spec.cpus:g} cpus{untested}"


@ATTACKS.add("open files, cores")
async def open_files(context: AttackContext) -> str:
    """Raise the limit of open files, and dump core."""
    most = int(await sh(context.sandbox, "ulimit -Hn"))
    expect(most <= 4096, f"{most} open files")
    expect(await sh(context.sandbox, "ulimit -Hc") == "0", "cores are dumped")
    return f"{most} per process"
