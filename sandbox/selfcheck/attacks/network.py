"""Attacks on the network isolation: connect to other machines, to this machine, or to another sandbox.

The outside addresses are reserved for documentation, except that of the metadata service of clouds, so no packet
reaches a person's machine. A connection attempt that times out counts as a failure, since its packet was sent.
"""

import contextlib
import fcntl
import json
import socket
import struct
from collections.abc import Iterator

from ...backends.protocol import Containment
from ..attack import AttackContext, Attacks
from ..harness import WALK_TIMEOUT_S, expect, python, sh

OUTSIDE = ("192.0.2.1", "2001:db8::1")
METADATA = "169.254.169.254"
PORTS = (22, 53, 80, 443, 3128, 5432, 6379, 8265, 10001)
SIOCGIFADDR = 0x8915
CONNECT = """
import errno, json, socket, sys
refused = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES)
for address, port, kind in json.loads(sys.argv[1]):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as one:
            one.settimeout(0.3)
            one.connect((address, port))
            one.send(b"x")
        print("reached", address, port, kind)
    except OSError as error:
        if error.errno not in refused and not (error.errno == errno.ECONNREFUSED and address.startswith("127.")):
            print("left:", address, port, kind, error)
"""
RESOLVE = """
import socket
try:
    print(socket.getaddrinfo("turnwise.invalid", 80))
except socket.gaierror:
    pass
"""
LISTEN = """
import os, socket, time
os.setsid()
one = socket.socket(socket.AF_UNIX); one.bind("\\0turnwise-sibling"); one.listen()
two = socket.socket(); two.bind(("127.0.0.1", 7711)); two.listen()
os.close(1); os.close(2); time.sleep(600)
"""
SHARED = """
import ctypes, glob, os, socket
seen = []
for kind, where in ((socket.AF_UNIX, "\\0turnwise-sibling"), (socket.AF_INET, ("127.0.0.1", 7711))):
    with socket.socket(kind) as one:
        seen += [str(where)] if one.connect_ex(where) == 0 else []
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen += [path] if b"600." + b"77" in open(path, "rb").read() else []
    except OSError:
        pass
for place in ("/workspace", "/tmp", "/dev/shm", "/dev/mqueue"):
    seen += [place] if os.path.exists(place + "/sibling") else []
seen += ["shm"] if ctypes.CDLL(None).shmget(7712, 0, 0) >= 0 else []
print(*seen)
"""

ATTACKS = Attacks()


async def _connect(context: AttackContext, targets: list[tuple[str, int, str]]) -> None:
    found = await python(context.sandbox, CONNECT, json.dumps(targets))
    expect(not found, found.replace("\n", "; "))


@ATTACKS.add("addresses outside", Containment.NETWORK)
async def addresses(context: AttackContext) -> str:
    """Outside addresses, IPv4 and IPv6, on well-known ports."""
    targets = [(address, port, kind) for address in OUTSIDE for port in PORTS for kind in ("tcp", "udp")]
    await _connect(context, targets)
    return f"{len(targets)} attempts"


@ATTACKS.add("metadata service", Containment.NETWORK)
async def metadata(context: AttackContext) -> str:
    """The metadata service of a cloud."""
    await _connect(context, [(METADATA, 80, "tcp"), ("fd00:ec2::254", 80, "tcp")])
    return METADATA


@ATTACKS.add("DNS", Containment.NETWORK)
async def dns(context: AttackContext) -> str:
    """DNS: no hostname resolves, and no nameserver in resolv.conf is reachable."""
    expect(not await python(context.sandbox, RESOLVE), "a hostname was resolved")
    servers = await sh(context.sandbox, "sed -n 's/^nameserver //p' /etc/resolv.conf 2>/dev/null; true")
    await _connect(context, [(one, 53, "udp") for one in servers.split()])
    return "turnwise.invalid; no nameserver reached"


@ATTACKS.add("this machine", Containment.NETWORK)
async def this_machine(context: AttackContext) -> str:
    """Listeners of this machine on loopback and on Docker's bridge, and its other addresses."""
    own = own_addresses()
    inner = [address for name, address in own.items() if name == "lo" or name.startswith("docker")]
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(_listening(address)) for address in inner]
        targets = [(each, listener.getsockname()[1], "tcp") for listener in listeners for each in own.values()]
        await _connect(context, targets + [(each, 22, "tcp") for each in own.values()])
        for listener in listeners:
            listener.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                listener.accept()
                expect(False, f"a connection arrived at {listener.getsockname()[0]}")
    return f"{len(listeners)} listeners, {len(own)} addresses"


@ATTACKS.add("interfaces", Containment.NETWORK)
async def interfaces(context: AttackContext) -> str:
    """Interfaces other than loopback, and routes."""
    up = await sh(context.sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1")
    expect(up.split() == ["lo"], f"interfaces: {', '.join(up.split())}")
    routes = await sh(context.sandbox, "tail -n +2 /proc/net/route")
    expect(not routes, f"route: {routes.splitlines()[:1]}")
    return "only lo; no route"


@ATTACKS.add("sibling sandbox", Containment.NETWORK)
async def sibling(context: AttackContext) -> str:
    """Sockets, processes, files and shared memory of another sandbox."""
    await sh(context.sibling, 'python3 -c "$CODE" 600.77 & sleep 0.3', env={"CODE": LISTEN})
    await sh(context.sibling, "for p in /workspace /tmp /dev/shm; do touch $p/sibling; done")
    await python(context.sibling, "import ctypes; ctypes.CDLL(None).shmget(7712, 4096, 0o1666)")
    seen = await python(context.sandbox, SHARED)
    expect(not seen, f"visible: {seen}")
    return "nothing of it is visible"


@ATTACKS.add("engine's socket", Containment.NETWORK)
async def engine(context: AttackContext) -> str:
    """The engine's socket, and any other socket in the file system."""
    found = await sh(
        context.sandbox, "find / -path /proc -prune -o -type s -print 2>/dev/null; true", timeout_s=WALK_TIMEOUT_S
    )
    expect(not found, f"sockets: {found.splitlines()[:3]}")
    await sh(context.sandbox, "! ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null")
    return "no socket at all"


def own_addresses() -> dict[str, str]:
    """Return this machine's IPv4 addresses by interface."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(one.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


@contextlib.contextmanager
def _listening(address: str) -> Iterator[socket.socket]:
    with socket.socket() as one:
        one.bind((address, 0))
        one.listen()
        yield one
