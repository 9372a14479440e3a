"""Conformance: nothing that one lease leaves in the sandbox is visible to the next.

Each case leaves objects of one kind, resets the sandbox, and looks for them.
"""

import contextlib

from ...sandbox import Sandbox
from ..harness import Cases, CheckFailed, expect, python, sh
from .files import DEEP

PLACES = ("/workspace", "/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - folders of the sandbox
WRITABLE = """
import os
for top, folders, _ in os.walk("/"):
    folders[:] = [name for name in folders if name != "probe" and (top, name) != ("/", "proc")]
    try:
        os.mkdir(f"{top}/probe")
    except OSError:
        try:
            open(f"{top}/probe", "x").close()
        except OSError:
            continue
    print(top)
"""
IPC = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in range(int(sys.argv[1])):
    for make in (lambda: libc.shmget(number + 7, 4096, 0o1666), lambda: libc.msgget(number + 7, 0o1666),
                 lambda: libc.semget(number + 7, 1, 0o1666)):
        if make() < 0 and not number:
            sys.exit(f"errno {ctypes.get_errno()}")
print("planted")
"""
KEYS = """
import ctypes, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
found = 0
for context in (-4, -5):
    if sys.argv[1] == "plant":
        found += libc.syscall(add, b"user", b"planted", b"secret", 6, context) > 0
    else:
        found += libc.syscall(control, 10, context, b"user", b"planted", 0) > 0
print(found)
"""
MQUEUE = """
import ctypes, sys
rt = ctypes.CDLL("librt.so.1", use_errno=True)
queue = rt.mq_open(b"/planted", 0o102, 0o600, None)
if queue < 0 or rt.mq_send(queue, b"secret", 6, 0):
    sys.exit(f"errno {ctypes.get_errno()}")
"""

CASES = Cases()


@CASES.add("left: files")
async def files(sandbox: Sandbox) -> str:
    """Files in every writable folder; no other folder is writable."""
    found = sorted((await python(sandbox, WRITABLE)).splitlines())
    expect(found == sorted(PLACES), f"writable: {', '.join(found)}")
    for place in PLACES[:3]:
        await sh(sandbox, f"cd {place} && touch a .b && mkdir -p c/.d/e && ln -s / f && mkfifo g && ln a c/h")
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1")
    expect(not seen, f"remains: {seen.splitlines()[:3]}")
    return ", ".join(PLACES)


@CASES.add("left: modes")
async def modes(sandbox: Sandbox) -> str:
    """Folders and files without access rights, and the mode of the working directory."""
    for place in PLACES[:3]:
        await sh(
            sandbox,
            f"cd {place} && mkdir -p a/b/c s t && touch a/b/c/x s/x t/x && chmod 000 a/b/c/x a/b/c a/b a"
            " && chmod 1777 s && chmod 1000 t",
        )
    await sh(sandbox, "chmod 000 /workspace")
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1; pwd; stat -c %a /workspace")
    expect(seen.split() == ["/workspace", "755"], f"remains: {seen.split()[:3]}")
    await sh(sandbox, "touch again")
    return "mode 000, sticky"


@CASES.add("left: deep trees")
async def deep_trees(sandbox: Sandbox) -> str:
    """Trees that are deeper than the maximum length of a path."""
    for place in PLACES[:2]:
        await python(sandbox, f"import os; os.chdir({place!r})\n{DEEP}", 1900)
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1 -maxdepth 1")
    expect(not seen, f"remains: {seen.splitlines()[:3]}")
    return "1,900 folders deep"


@CASES.add("left: many files", inodes=16384)
async def many_files(sandbox: Sandbox) -> str:
    """As many files as the limit allows."""
    made = "import sys\ntry:\n    for n in range(16000): open(f'{sys.argv[1]}/{n}', 'w').close()\nexcept OSError: pass"
    for place in PLACES[:2]:
        await python(sandbox, made, place)
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1 | wc -l")
    expect(seen == "0", f"{seen} files remain")
    return "32,000"


@CASES.add("left: attributes")
async def attributes(sandbox: Sandbox) -> str:
    """Extended attributes, inode flags (`chattr`) and times of the writable folders themselves."""
    flags = "import fcntl, os, sys, struct\nend = os.open('/workspace', 0)\n"
    set_flags = "fcntl.ioctl(end, 0x40086602, struct.pack('q', 0xc0))\n"
    get_flags = "print(struct.unpack('q', fcntl.ioctl(end, 0x80086601, bytes(8)))[0] & 0xc0)\n"
    plant = (
        "import os\nfor place in {0}:\n"
        "    try: os.setxattr(place, 'user.planted', b'secret')\n    except OSError: pass\n"
        "os.utime('/workspace', (86400, 86400))"
    )
    look = (
        "import os\nfor place in {0}:\n    print(*os.listxattr(place), end=' ')\n"
        "about = os.stat('/workspace'); print(86400 in (about.st_atime, about.st_mtime))"
    )
    await python(sandbox, plant.format(PLACES))
    with contextlib.suppress(CheckFailed):
        await python(sandbox, flags + set_flags)
    await sandbox.reset(timeout_s=10)
    seen = await python(sandbox, look.format(PLACES))
    expect("user.planted" not in seen, "an extended attribute remains")
    expect(seen.split()[-1] == "False", "the times of the working directory remain")
    kept = "0"
    with contextlib.suppress(CheckFailed):
        kept = await python(sandbox, flags + get_flags)
    expect(kept == "0", "inode flags of the working directory remain")
    return "of the writable folders"


@CASES.add("left: System V")
async def sysv(sandbox: Sandbox) -> str:
    """System V shared memory, message queues and semaphores."""
    await python(sandbox, IPC, 1)
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, "tail -qn +2 /proc/sysvipc/*")
    expect(not seen, f"remains: {seen.splitlines()[:1]}")
    return "shm, msg, sem"


@CASES.add("left: much System V")
async def many_sysv(sandbox: Sandbox) -> str:
    """As many System V objects as the limit allows, within the time of a reset."""
    await python(sandbox, IPC, 4000)
    planted = await sh(sandbox, "cat /proc/sysvipc/* | wc -l")
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, "tail -qn +2 /proc/sysvipc/* | wc -l")
    expect(seen == "0", f"{seen} of {planted} remain")
    return f"{int(planted) - 3} cleared"


@CASES.add("left: mqueue")
async def message_queues(sandbox: Sandbox) -> str:
    """POSIX message queues."""
    try:
        await python(sandbox, MQUEUE)
    except CheckFailed as refused:
        return f"cannot be created ({refused})"
    await sandbox.reset(timeout_s=10)
    seen = await sh(sandbox, "ls /dev/mqueue")
    expect(not seen, f"remains: {seen}")
    return "cleared"


@CASES.add("left: keys")
async def keys(sandbox: Sandbox) -> str:
    """Keys in the kernel's user and session keyrings."""
    planted = await python(sandbox, KEYS, "plant")
    await sandbox.reset(timeout_s=10)
    seen = await python(sandbox, KEYS, "look")
    expect(seen == "0", f"{seen} of {planted} keys remain")
    return "cannot be created" if planted == "0" else "cleared"


@CASES.add("left: processes")
async def processes(sandbox: Sandbox) -> str:
    """Background processes, also in other sessions, and the sockets on which they listen."""
    listen = (
        "import os, socket, time\nos.setsid()\na = socket.socket(socket.AF_UNIX); a.bind('\\0planted'); a.listen()\n"
        "b = socket.socket(); b.bind(('127.0.0.1', 7777)); b.listen(); os.close(1); os.close(2); time.sleep(600)"
    )
    await sh(sandbox, 'python3 -c "$CODE" & sleep 0.3', env={"CODE": listen})
    await sh(sandbox, "(setsid nohup sleep 600.31 >/dev/null 2>&1 &)")
    await sandbox.reset(timeout_s=10)
    look = (
        "import socket\nfor kind, where in ((socket.AF_UNIX, '\\0planted'), (socket.AF_INET, ('127.0.0.1', 7777))):\n"
        "    with socket.socket(kind) as one: print(one.connect_ex(where))"
    )
    seen = (await python(sandbox, look)).split()
    expect("0" not in seen, "a listening socket still accepts connections")
    expect((await sh(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).count("600.31") == 0, "a process remains")
    return "processes, sockets"
