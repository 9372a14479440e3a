"""Attacks on the guest agent, and attempts to gain rights that the sandbox user must not have."""

from ...backends.protocol import Containment
from ..attack import AttackContext, Attacks, silent
from ..harness import WALK_TIMEOUT_S, expect, python, sh

OUTSIDE = (
    "/",
    "/etc",
    "/usr",
    "/usr/bin",
    "/run",
    "/run/turnwise",
    "/var/tmp",  # noqa: S108 - folder of the sandbox
    "/root",
    "/opt",
    "/sys",
    "/dev",
    "/proc/sys",
)
SIGNALS = """
import os
for pid in {target}:
    for number in range(1, 65):
        try:
            os.kill(pid, number)
        except OSError:
            pass
"""
TRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
for name in os.listdir("/proc"):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    pid = int(name)
    if libc.ptrace(16, pid, None, None) == 0 or libc.ptrace(0x4206, pid, None, None) == 0:
        print("traced", pid)
    for file in ("mem", "environ", "maps", "fd", "root", "cwd"):
        path = f"/proc/{pid}/{file}"
        try:
            os.listdir(path) if file in ("fd", "root", "cwd") else open(path, "rb").read(1)
            print("read", path)
        except OSError:
            pass
    handle = os.pidfd_open(pid)
    for number in range(10):
        if libc.syscall(438, handle, number, 0) >= 0:
            print("stole descriptor", number, "of", pid)
"""
CALLS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, done):
    if done: print(what)
def attempt(what, work):
    try: work()
    except (OSError, PermissionError): return
    print(what)
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("mknod", lambda: os.mknod("/workspace/null", 0o20666, os.makedev(1, 3)))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("chown", lambda: (open("/workspace/own", "w").close(), os.chown("/workspace/own", 0, 0)))
attempt("nice", lambda: os.nice(-5))
attempt("sethostname", lambda: socket.sethostname("x"))
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("mount", libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
tried("remount", libc.mount(None, b"/", None, 32, None) == 0)
tried("umount", libc.umount2(b"/proc", 2) == 0)
tried("swapon", libc.swapon(b"/workspace/own", 0) == 0)
tried("init_module", libc.syscall(175, None, 0, b"") == 0)
tried("settimeofday", libc.settimeofday(ctypes.create_string_buffer(16), None) == 0)
tried("ioperm", hasattr(libc, "ioperm") and libc.ioperm(0, 8, 1) == 0)
tried("setns", libc.setns(os.open("/proc/self/ns/mnt", 0), 0) == 0)
"""
NAMESPACES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for what, flag in (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("network", 0x40000000)):
    if os.fork() == 0:
        if libc.unshare(flag) == 0: print(what, flush=True)
        os._exit(0)
    os.wait()
"""
FILTERED = """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
calls = {"keyctl": (250, 0, -3, 1), "add_key": (248, b"user", b"x", b"y", 1, -3), "bpf": (321, 0, 0, 0),
         "perf_event_open": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 0), "open_by_handle_at": (304, 0, 0, 0),
         "kexec_load": (246, 0, 0, 0, 0), "io_setup": (206, 1, 0), "io_uring_setup": (425, 1, 0),
         "memfd_secret": (447, 0), "modify_ldt": (154, 0, 0, 0)}
for name, call in calls.items() if platform.machine() == "x86_64" else ():
    if libc.syscall(*call) >= 0 or ctypes.get_errno() not in (1, 38):
        print(name)
"""
SETUID = """
cp /bin/sh /workspace/shell && chmod 4755 /workspace/shell && /workspace/shell -pc 'id -u'
for f in $(find /usr -xdev -perm -4000 -type f 2>/dev/null); do
    case $f in
        */su) echo | timeout 0.5 $f -c 'id -u' 2>/dev/null ;;
        */mount) $f -t tmpfs none /tmp 2>/dev/null && echo 0 ;;
    esac
done
true
"""
KNOBS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/shmall",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/release_agent",
)
SECRETS = (
    "/proc/kcore",
    "/proc/kmsg",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/sda",
    "/dev/vda",
    "/dev/fuse",
    "/etc/shadow",
    "/root",
)

ATTACKS = Attacks()
# The memory, files and descriptors of the guest agent.
ATTACKS.add("tracing the guest agent")(silent(TRACE, "reached", "ptrace, /proc, pidfd_getfd"))
# A namespace in which the sandbox user would be root.
ATTACKS.add("namespaces", Containment.SYSTEM_CALLS)(silent(NAMESPACES, "created", "user, mount, pid, network"))
ATTACKS.add("root's calls")(silent(CALLS, "succeeded", "mount, mknod, chroot, setuid and others refused"))


@ATTACKS.add("writing outside")
async def write_outside(context: AttackContext) -> str:
    """Write to folders other than the writable ones."""
    done = await sh(
        context.sandbox,
        f"for d in {' '.join(OUTSIDE)}; do (touch $d/x || mkdir $d/y) 2>/dev/null && echo $d; done; true",
    )
    expect(not done, f"writable: {done.split()}")
    return f"{len(OUTSIDE)} folders"


@ATTACKS.add("kill -9 -1")
async def kill_everything(context: AttackContext) -> str:
    """End the sandbox with ``kill -9 -1``."""
    done = await context.sandbox.exec(["sh", "-c", "sleep 60 & kill -9 -1; sleep 1"], timeout_s=10)
    await context.expect_usable()
    return f"the command ended with {done.exit_code}"


@ATTACKS.add("signals to the guest agent")
async def signals(context: AttackContext) -> str:
    """End the sandbox with any signal to process 1 or to every other process."""
    await context.sandbox.exec(["python3", "-c", SIGNALS.format(target="(1,)")], timeout_s=10)
    await context.expect_usable()
    others = "[int(n) for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()]"
    await context.sandbox.exec(["python3", "-c", SIGNALS.format(target=others)], timeout_s=10)
    await context.expect_usable()
    return "64 signals to each"


@ATTACKS.add("limits of the guest agent", Containment.SYSTEM_CALLS)
async def limits(context: AttackContext) -> str:
    """Lower the resource limits of the guest agent."""
    await sh(
        context.sandbox,
        "for p in $(ls /proc | grep '^[0-9]'); do"
        " [ $p = $$ ] || prlimit -p $p --as=1000000 --nofile=3 --cpu=1; done; true",
    )
    await context.expect_usable()
    await context.sandbox.read(".", timeout_s=5)
    return "prlimit"


@ATTACKS.add("capabilities")
async def status(context: AttackContext) -> str:
    """Capabilities, new privileges and root groups of the sandbox user."""
    text = await sh(context.sandbox, "cat /proc/self/status")
    fields = {line.partition(":")[0]: line.partition(":")[2].split() for line in text.splitlines()}
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        expect(int(fields[name][0], 16) == 0, f"{name} is {fields[name][0]}")
    expect(fields["NoNewPrivs"] == ["1"], "NoNewPrivs is not set")
    expect("0" not in fields["Uid"] + fields["Gid"] + fields["Groups"], "a uid or gid is 0")
    return "no capability, no new privileges"


@ATTACKS.add("system call filter", Containment.SYSTEM_CALLS)
async def seccomp(context: AttackContext) -> str:
    """Make system calls that the filter must refuse."""
    expect(
        await sh(context.sandbox, "grep Seccomp: /proc/self/status | cut -f2") == "2", "no system call filter is active"
    )
    found = (await python(context.sandbox, FILTERED)).split()
    expect(not found, f"allowed: {', '.join(found)}")
    return "keyctl, bpf, io_uring, userfaultfd and others refused"


@ATTACKS.add("setuid programs")
async def setuid(context: AttackContext) -> str:
    """Run setuid programs as their owner."""
    user = await sh(context.sandbox, "id -u")
    found = set((await sh(context.sandbox, SETUID, timeout_s=WALK_TIMEOUT_S)).split())
    expect(found <= {user}, f"ran as {found}")
    return f"ran as {user}"


@ATTACKS.add("kernel settings")
async def knobs(context: AttackContext) -> str:
    """Write kernel settings, and read kernel memory, devices and root's files."""
    written = await sh(
        context.sandbox, f"for f in {' '.join(KNOBS)}; do (echo 0 > $f) 2>/dev/null && echo $f; done; true"
    )
    expect(not written, f"written: {written.split()}")
    read = await sh(
        context.sandbox,
        f"for f in {' '.join(SECRETS)}; do"
        ' [ -n "$(timeout 1 head -c 1 $f 2>/dev/null; ls -A $f/ 2>/dev/null)" ] && echo $f; done; true',
    )
    expect(not read, f"read: {read.split()}")
    return f"{len(KNOBS)} settings, {len(SECRETS)} secrets"
