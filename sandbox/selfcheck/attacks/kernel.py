"""Attacks on limits, memory and tables of the kernel that sandboxes could share, and on interfaces without a namespace.

A process of the attacked sandbox holds as much of one resource as it can get, and the sibling then uses the same
resource.
"""

import asyncio

from ...backends.protocol import Containment
from ...errors import FileError
from ..attack import AttackContext, Attacks, Work, silent
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
                if protocol or family not in (1, 2, 10):
                    print(f"{family}/{protocol}")
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
SYNC = "import ctypes; ctypes.CDLL(None).syncfs(-1) and print('syncfs')"
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
PROGRAMS = """
import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
PRCTL, SECCOMP = (157, 317) if x86 else (167, 277)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000) * 64)
program = struct.pack("HxxxxxxQ", 64, ctypes.addressof(code))
pointer = ctypes.c_char_p(program)
libc.prctl(38, 1, 0, 0, 0)
def install(*arguments):
    return libc.syscall(*(one if one is pointer else ctypes.c_long(one) for one in arguments)) >= 0
tried = {
    "seccomp": lambda: install(SECCOMP, 1, 0, pointer),
    "a listener": lambda: install(SECCOMP, 1, 8, pointer),
    "prctl": lambda: install(PRCTL, 22, 2, pointer),
    "prctl with high bits": lambda: install(PRCTL, 22 | 1 << 32, 2, pointer),
}
for option in (26, 50, 51, 52):
    for kind in (1, 2):
        def attach(option=option, kind=kind):
            socket.socket(socket.AF_INET, kind).setsockopt(1, option, program)
            return True
        tried[f"socket option {option}"] = attach
def attach_high():
    one = socket.socket()
    return libc.syscall(54 if x86 else 208, ctypes.c_long(one.fileno()), ctypes.c_long(1 | 1 << 32),
                        ctypes.c_long(26 | 1 << 32), pointer, ctypes.c_long(16)) >= 0
tried["socket option with high bits"] = attach_high
for name, one in tried.items():
    try:
        if one():
            print(name)
    except OSError:
        pass
"""
"""Ways to have the kernel compile a filter."""
SOCKET_OPTIONS = """
import ctypes, errno, os, socket, struct
refused = errno.EPERM
cases = [(socket.AF_INET, 0, option) for option in (4, 16, 17, *range(35, 49))]
cases += [(socket.AF_INET6, 41, option) for option in (6, 20, 27, 32, 34, 35, *range(42, 49), 54, 55, 57, 59)]
cases += [(socket.AF_INET, 17, 100), (socket.AF_INET, 6, 14), (socket.AF_INET, 6, 31)]
for family, level, option in cases:
    try:
        with socket.socket(family, socket.SOCK_DGRAM if level == 17 else socket.SOCK_STREAM) as one:
            one.setsockopt(level, option, bytes(256))
    except OSError as error:
        if error.errno in (refused, errno.EAFNOSUPPORT):
            continue
    print(f"{level}/{option}")
"""
MEMORY_NAMES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_long
place = libc.mmap(None, 1 << 16, 3, 0x22, -1, 0)
if libc.prctl(0x53564D41, 0, ctypes.c_long(place), ctypes.c_long(4096), b"x" * 79) >= 0:
    print("PR_SET_VMA")
"""

ATTACKS = Attacks()


def _held(kind: str, units: int, processes: int) -> Work:
    """Return an attack that holds ``units`` of a resource in each of some processes; the sibling must still get it."""

    async def work(context: AttackContext) -> str:
        held = await python(context.sandbox, HOLD, kind, units, processes, 600)
        got = int(await python(context.sibling, HOLD, kind, SIBLING_UNITS, 1, 0))
        expect(got == SIBLING_UNITS, f"with {held} held, the sibling gets {got} of {SIBLING_UNITS}")
        return f"{held} held; the sibling gets its own"

    return work


# Limited per uid; the number of pages of pipes per uid decides the size of new pipes.
ATTACKS.add("message queues of others")(_held("queue", 512, 1))
ATTACKS.add("inotify of others")(_held("inotify", 512, 1))
ATTACKS.add("signals of others")(_held("signals", 200_000, 1))
ATTACKS.add("pipes of others")(_held("pipe", 1500, 4))
# Limited on the whole machine.
ATTACKS.add("terminals of others", Containment.TOTALS)(_held("terminal", 1500, 4))
ATTACKS.add("compiled filters", Containment.SYSTEM_CALLS)(silent(PROGRAMS, "installed by", "every way refused"))
# Of families without a namespace (vsock) or without a memory limit (netlink), and of odd protocols.
ATTACKS.add("socket families", Containment.SYSTEM_CALLS)(
    silent(FAMILIES, "opened (family/protocol)", "only unix, TCP and UDP")
)
# Options that take entries of tables of the machine, or memory of no limit.
ATTACKS.add("socket options of the machine", Containment.SYSTEM_CALLS)(
    silent(SOCKET_OPTIONS, "reached the kernel (level/option)", "flow labels, groups, policies and headers refused")
)
# Names of anonymous memory belong to no memory limit.
ATTACKS.add("names of memory", Containment.SYSTEM_CALLS)(silent(MEMORY_NAMES, "allowed", "refused"))
# `syncfs` would let the machine write its dirty pages.
ATTACKS.add("sync", Containment.SYSTEM_CALLS)(silent(SYNC, "a system call of the kernel", "without effect"))


@ATTACKS.add("regrown pipes of others")
async def regrown_pipes(context: AttackContext) -> str:
    """Enlarge the pipes of ended commands, which count for the guest agents of all sandboxes together."""
    for _ in range(REGROWN_COMMANDS):
        await python(context.sandbox, REGROWN)
    await asyncio.sleep(1.0)
    got = int(await python(context.sibling, PIPE_BYTES))
    expect(got == 65536, f"the sibling's command gets a pipe of {got} bytes")
    return "the sibling's pipes have 64 KiB"


@ATTACKS.add("AIO contexts of others", Containment.SYSTEM_CALLS)
async def aio(context: AttackContext) -> str:
    """Hold AIO contexts, whose events are limited on the whole machine."""
    held = int(await python(context.sandbox, HOLD, "aio", 1, 1, 0))
    expect(held == 0, "io_setup is allowed")
    return "io_setup refused"


@ATTACKS.add("socket buffers", Containment.TOTALS)
async def buffers(context: AttackContext) -> str:
    """Exceed the memory limit with buffers of TCP and UDP sockets."""
    limit = context.spec.memory_mib
    grown = int(await python(context.sandbox, BUFFERS, 120, limit))
    expect(grown <= limit, f"{grown} MiB, over {limit}")
    return f"{grown} MiB of buffers"


@ATTACKS.add("unaccepted connections")
async def waiting(context: AttackContext) -> str:
    """Leave thousands of connections unaccepted, whose memory the kernel charges to nobody."""
    done = await context.sandbox.exec(["python3", "-c", WAITING], timeout_s=30)
    expect(done.oom and done.exit_code != 0, f"8,000 connections wait: exit {done.exit_code} {done.stderr[-80:]!r}")
    await context.expect_usable()
    return "killed over 1,024 sockets"


@ATTACKS.add("data of unaccepted connections", Containment.TOTALS)
async def unaccepted_data(context: AttackContext) -> str:
    """Fill the largest receive buffers of connections that nobody accepts."""
    limit = context.spec.memory_mib
    grown = int(await python(context.sandbox, UNACCEPTED, limit))
    expect(grown <= limit, f"{grown} MiB, over {limit}")
    return f"{grown} MiB"


@ATTACKS.add("closed connections", Containment.TOTALS)
async def closed_connections(context: AttackContext) -> str:
    """Leave closed connections to the next lease, which sees them and cannot use their port."""
    await python(context.sandbox, CLOSED)
    await context.sandbox.reset(timeout_s=10)
    seen = await sh(context.sandbox, "tail -n +2 /proc/net/tcp | wc -l")
    expect(seen == "0", f"{seen} connections remain")
    return "cleared"


@ATTACKS.add("huge pages", Containment.SYSTEM_CALLS)
async def huge_pages(context: AttackContext) -> str:
    """Take huge pages, of which the machine has a number that no memory limit includes."""
    found = await python(context.sandbox, HUGE)
    expect(found == "1 1 1", f"errors of mmap, memfd_create and shmget: {found}; 12 is a lack of huge pages")
    return "refused"


@ATTACKS.add("undecodable process name")
async def undecodable_name(context: AttackContext) -> str:
    """Take a process name that is not text, then exceed the timeout and leave a process."""
    done = await context.sandbox.exec(["python3", "-c", NAMED], timeout_s=0.5)
    expect(done.timed_out, f"the command was not killed: exit {done.exit_code} {done.stderr[:80]!r}")
    left = await sh(context.sandbox, "grep -al 'os[.]setsid' /proc/[0-9]*/cmdline | wc -l")
    expect(left == "0", f"{left} processes are left")
    return "killed at the timeout"


@ATTACKS.add("files of the guest agent")
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
