"""Attacks on limits and memory of the kernel that sandboxes could share, and on interfaces that belong to no namespace.

A process of the attacked sandbox holds as much of one resource as it can get, and the sibling then uses the same
resource.
"""

import asyncio

from ...backends.protocol import Containment
from ...errors import FileError
from ..attack import Attack, AttackContext
from ..harness import expect, python, sh

SIBLING_UNITS = 4
"""Units of a resource that the sibling must get during an attack."""
REGROWN_COMMANDS = 32
HOLD = """
import ctypes, fcntl, os, resource, signal, sys, time
libc, rt = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("librt.so.1", use_errno=True)
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kind, units, processes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def queue(number):
    name = b"/%d-%d" % (os.getpid(), number)
    return rt.mq_open(name, 0o102, 0o600, None) >= 0 and rt.mq_unlink(name) == 0
def inotify(number):
    return libc.inotify_init1(0) >= 0
def signals(number):
    return libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0
def pipe(number):
    return fcntl.fcntl(os.pipe()[0], fcntl.F_GETPIPE_SZ) == 65536
def terminal(number):
    return len(os.openpty()) == 2
def aio(number):
    return libc.syscall({"x86_64": 206, "aarch64": 0}[os.uname().machine], 16384, ctypes.byref(ctypes.c_ulong())) == 0

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
out, result = os.pipe()
for _ in range(processes):
    if os.fork() == 0:
        got = 0
        try:
            while got < units and globals()[kind](got):
                got += 1
        except OSError:
            pass
        os.write(result, str(got).encode() + bytes([10]))
        for end in (0, 1, 2):
            os.close(end)
        time.sleep(float(sys.argv[4]))
        os._exit(0)
print(sum(int(line) for _, line in zip(range(processes), os.fdopen(out))))
"""
FAMILIES = """
import socket
for family in range(48):
    for kind in (1, 2, 3, 5):
        for protocol in (0, *((2, 9, 15, 16, 20) if family == 16 else (33, 132, 136, 262))):
            try:
                socket.socket(family, kind, protocol).close()
                print(family if family in (1, 2, 10) and protocol == 0 else f"{family}/{protocol}")
            except OSError:
                pass
"""
BUFFERS = """
import socket, sys
def pages():
    return sum(int(line.split("mem ")[1]) for line in open("/proc/net/sockstat") if line[:4] in ("TCP:", "UDP:"))
before, most, held, piece = pages(), int(sys.argv[2]), [], b"x" * (1 << 20)
def grown():
    return (pages() - before) >> 8
server = socket.create_server(("127.0.0.1", 0), backlog=1024)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[1])):
    if grown() > most:
        break
    one = socket.create_connection(server.getsockname())
    other = server.accept()[0]
    box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    box.bind(("127.0.0.1", 0))
    for end in (one, other, box):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        end.setblocking(False)
    held += [one, other, box]
    try:
        for _ in range(16):
            one.send(piece)
    except BlockingIOError:
        pass
    for _ in range(64):
        sender.sendto(piece[:60000], box.getsockname())
print(grown())
"""
WAITING = """
import socket, struct, time
held = []
for number in range(8):
    server = socket.create_server((f"127.0.1.{number + 1}", 9000), backlog=4096)
    held.append(server)
    for _ in range(1000):
        one = socket.socket()
        if number % 2:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.connect(server.getsockname())
        one.send(bytes(1000))
        one.close()
time.sleep(1)
"""
UNACCEPTED = """
import socket, sys, time
def pages():
    return sum(int(line.split("mem ")[1]) for line in open("/proc/net/sockstat") if line[:4] == "TCP:")
before, most, held, piece = pages(), int(sys.argv[1]), [], b"x" * (1 << 20)
server = socket.socket()
for option in (socket.SO_RCVBUF, socket.SO_RCVLOWAT, 33):
    try:
        server.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
    except OSError:
        pass
server.bind(("127.0.0.1", 0))
server.listen(1024)
for _ in range(400):
    if (pages() - before) >> 8 > most:
        break
    one = socket.create_connection(server.getsockname())
    one.setblocking(False)
    held.append(one)
    for _ in range(64):
        try:
            one.send(piece)
        except BlockingIOError:
            time.sleep(0.001)
            break
print((pages() - before) >> 8)
"""
REGROWN = """
import fcntl, os, time
if os.fork():
    os._exit(0)
time.sleep(0.3)
for end in (0, 1, 2):
    for power in range(20, 12, -1):
        try:
            fcntl.fcntl(end, 1031, 1 << power)
            break
        except OSError:
            pass
time.sleep(60)
"""
PIPE_BYTES = "import fcntl; print(fcntl.fcntl(1, 1032))"
CLOSED = """
import socket
server = socket.create_server(("127.0.0.1", 8123), reuse_port=True)
one = socket.create_connection(server.getsockname())
server.accept()[0].close()
one.close()
"""
HUGE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_long
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
def tried(result):
    return 0 if result >= 0 else ctypes.get_errno()
print(tried(libc.mmap(None, 2 << 20, 3, 0x40022, -1, 0)), tried(libc.memfd_create(b"huge", 4)),
      tried(libc.shmget(0, 2 << 20, 0o5600)))
"""
NAMED = """
import ctypes, os
ctypes.CDLL(None).prctl(15, b"\\xff\\xfe ) Z 1", 0, 0, 0)
if os.fork() == 0:
    os.setsid()
while True:
    pass
"""


async def _shared(context: AttackContext, kind: str, units: int, processes: int) -> str:
    """Hold ``units`` of a resource in each of some processes, and require that the sibling still gets it."""
    held = await python(context.sandbox, HOLD, kind, units, processes, 600)
    got = int(await python(context.sibling, HOLD, kind, SIBLING_UNITS, 1, 0))
    expect(got == SIBLING_UNITS, f"with {held} held, the sibling gets {got} of {SIBLING_UNITS}")
    return f"{held} held; the sibling gets its own"


async def queues(context: AttackContext) -> str:
    """Hold POSIX message queues, whose bytes are limited per uid."""
    return await _shared(context, "queue", 512, 1)


async def inotify(context: AttackContext) -> str:
    """Hold inotify instances, which are limited per uid."""
    return await _shared(context, "inotify", 512, 1)


async def signals(context: AttackContext) -> str:
    """Hold pending signals, which are limited per uid."""
    return await _shared(context, "signals", 200_000, 1)


async def pipes(context: AttackContext) -> str:
    """Hold pages of pipes, whose number per uid decides the size of new pipes."""
    return await _shared(context, "pipe", 1500, 4)


async def regrown_pipes(context: AttackContext) -> str:
    """Enlarge the pipes of ended commands, which count for the guest agents of all sandboxes together."""
    for _ in range(REGROWN_COMMANDS):
        await python(context.sandbox, REGROWN)
    await asyncio.sleep(1.0)
    got = int(await python(context.sibling, PIPE_BYTES))
    expect(got == 65536, f"the sibling's command gets a pipe of {got} bytes")
    return "the sibling's pipes have 64 KiB"


async def terminals(context: AttackContext) -> str:
    """Hold pseudo-terminals, which are limited on the whole machine."""
    return await _shared(context, "terminal", 1500, 4)


async def aio(context: AttackContext) -> str:
    """Hold AIO contexts, whose events are limited on the whole machine."""
    held = int(await python(context.sandbox, HOLD, "aio", 1, 1, 0))
    expect(held == 0, "io_setup is allowed")
    return "io_setup refused"


async def families(context: AttackContext) -> str:
    """Open sockets of families without a namespace (vsock) or without a memory limit (netlink), and odd protocols."""
    found = set((await python(context.sandbox, FAMILIES)).split()) - {"1", "2", "10"}
    expect(not found, f"opened (family/protocol): {', '.join(sorted(found))}")
    return "only unix, TCP and UDP"


async def buffers(context: AttackContext) -> str:
    """Exceed the memory limit with buffers of TCP and UDP sockets."""
    limit = context.spec.memory_mib
    grown = int(await python(context.sandbox, BUFFERS, 120, limit))
    expect(grown <= limit, f"{grown} MiB, over {limit}")
    return f"{grown} MiB of buffers"


async def waiting(context: AttackContext) -> str:
    """Leave thousands of connections unaccepted, whose memory the kernel charges to nobody."""
    done = await context.sandbox.exec(["python3", "-c", WAITING], timeout_s=30)
    expect(done.oom and done.exit_code != 0, f"8,000 connections wait: exit {done.exit_code} {done.stderr[-80:]!r}")
    await context.expect_usable()
    return "killed over 1,024 sockets"


async def unaccepted_data(context: AttackContext) -> str:
    """Fill the largest receive buffers of connections that nobody accepts."""
    limit = context.spec.memory_mib
    grown = int(await python(context.sandbox, UNACCEPTED, limit))
    expect(grown <= limit, f"{grown} MiB, over {limit}")
    return f"{grown} MiB"


async def closed_connections(context: AttackContext) -> str:
    """Leave closed connections to the next lease, which sees them and cannot use their port."""
    await python(context.sandbox, CLOSED)
    await context.sandbox.reset(timeout_s=10)
    seen = await sh(context.sandbox, "tail -n +2 /proc/net/tcp | wc -l")
    expect(seen == "0", f"{seen} connections remain")
    return "cleared"


async def sync(context: AttackContext) -> str:
    """Let the machine write its dirty pages, as `sync` and `syncfs` do."""
    result = await python(context.sandbox, "import ctypes; print(ctypes.CDLL(None).syncfs(-1))")
    expect(result == "0", "syncfs is a system call of the kernel")
    return "without effect"


async def huge_pages(context: AttackContext) -> str:
    """Take huge pages, of which the machine has a number that no memory limit includes."""
    found = await python(context.sandbox, HUGE)
    expect(found == "1 1 1", f"errors of mmap, memfd_create and shmget: {found}; 12 is a lack of huge pages")
    return "refused"


async def undecodable_name(context: AttackContext) -> str:
    """Take a process name that is not text, then exceed the timeout and leave a process."""
    done = await context.sandbox.exec(["python3", "-c", NAMED], timeout_s=0.5)
    expect(done.timed_out, f"the command was not killed: exit {done.exit_code} {done.stderr[:80]!r}")
    left = await sh(context.sandbox, "grep -al 'os[.]setsid' /proc/[0-9]*/cmdline | wc -l")
    expect(left == "0", f"{left} processes are left")
    return "killed at the timeout"


async def agent_files(context: AttackContext) -> str:
    """Read and write the guest agent's own files in /proc by means of the agent, directly and through a link."""
    await sh(context.sandbox, "ln -s /proc/self own")
    for path in ("/proc/self/timerslack_ns", "/proc/self/comm", "own/timerslack_ns"):
        written = True
        try:
            await context.sandbox.write({path: b"20000000000"}, timeout_s=5)
        except FileError:
            written = False
        expect(not written, f"{path} was written")
    for path in ("/proc/self/maps", "/proc/self", "own/fdinfo"):
        expect(not await context.sandbox.read(path, timeout_s=5), f"{path} was read")
    return "neither read nor written"


KERNEL = (
    Attack("message queues of others", queues),
    Attack("inotify of others", inotify),
    Attack("signals of others", signals),
    Attack("pipes of others", pipes),
    Attack("regrown pipes of others", regrown_pipes),
    Attack("terminals of others", terminals, Containment.TOTALS),
    Attack("AIO contexts of others", aio, Containment.SYSTEM_CALLS),
    Attack("socket families", families, Containment.SYSTEM_CALLS),
    Attack("socket buffers", buffers, Containment.TOTALS),
    Attack("unaccepted connections", waiting),
    Attack("data of unaccepted connections", unaccepted_data, Containment.TOTALS),
    Attack("closed connections", closed_connections, Containment.TOTALS),
    Attack("huge pages", huge_pages, Containment.SYSTEM_CALLS),
    Attack("sync", sync, Containment.SYSTEM_CALLS),
    Attack("undecodable process name", undecodable_name),
    Attack("files of the guest agent", agent_files),
)
