"""Conformance: what one lease leaves, in any place it can be left, the next does not find.

Each case plants something, has the sandbox reset, and looks for it as the next borrower would.
"""

from ...sandbox import Sandbox
from ..harness import Case, CheckFailed, MakeSandbox, expect, python, sh
from .files import DEEP

PLACES = ("/workspace", "/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - the sandbox's own
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


async def _cleared(sandbox: Sandbox) -> None:
    await sandbox.reset(timeout_s=10)


async def files(make: MakeSandbox) -> str:
    """Files in every place that can be written to; and there is no other such place."""
    sandbox = await make()
    found = sorted((await python(sandbox, WRITABLE)).splitlines())
    expect(found == sorted(PLACES), f"can be written to: {', '.join(found)}")
    for place in PLACES[:3]:
        await sh(sandbox, f"cd {place} && touch a .b && mkdir -p c/.d/e && ln -s / f && mkfifo g && ln a c/h")
    await _cleared(sandbox)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1")
    expect(not seen, f"left: {seen.splitlines()[:3]}")
    return ", ".join(PLACES)


async def rights(make: MakeSandbox) -> str:
    """Folders and files whose rights were taken away, and the work folder's own."""
    sandbox = await make()
    for place in PLACES[:3]:
        await sh(
            sandbox,
            f"cd {place} && mkdir -p a/b/c s t && touch a/b/c/x s/x t/x && chmod 000 a/b/c/x a/b/c a/b a"
            " && chmod 1777 s && chmod 1000 t",
        )
    await sh(sandbox, "chmod 000 /workspace")
    await _cleared(sandbox)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1; pwd; stat -c %a /workspace")
    expect(seen.split() == ["/workspace", "755"], f"left: {seen.split()[:3]}")
    await sh(sandbox, "touch again")
    return "mode 000, sticky"


async def deep_trees(make: MakeSandbox) -> str:
    """Trees deeper than any path can be long."""
    sandbox = await make()
    for place in PLACES[:2]:
        await python(sandbox, f"import os; os.chdir({place!r})\n{DEEP}", 1900)
    await _cleared(sandbox)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1 -maxdepth 1")
    expect(not seen, f"left: {seen.splitlines()[:3]}")
    return "1,900 folders deep"


async def many_files(make: MakeSandbox) -> str:
    """As many files as there may be."""
    sandbox = await make(inodes=16384)
    made = "import sys\ntry:\n    for n in range(16000): open(f'{sys.argv[1]}/{n}', 'w').close()\nexcept OSError: pass"
    for place in PLACES[:2]:
        await python(sandbox, made, place)
    await _cleared(sandbox)
    seen = await sh(sandbox, f"find {' '.join(PLACES)} -mindepth 1 | wc -l")
    expect(seen == "0", f"left: {seen} files")
    return "32,000"


async def attributes(make: MakeSandbox) -> str:
    """Extended attributes and times of the folders that stay."""
    sandbox = await make()
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
    await _cleared(sandbox)
    seen = await python(sandbox, look.format(PLACES))
    expect("user.planted" not in seen, "an extended attribute is left")
    expect(seen.split()[-1] == "False", "the work folder's times are left")
    return "of the folders that stay"


async def sysv(make: MakeSandbox) -> str:
    """System V's shared memory, queues and semaphores."""
    sandbox = await make()
    await python(sandbox, IPC, 1)
    await _cleared(sandbox)
    seen = await sh(sandbox, "tail -qn +2 /proc/sysvipc/*")
    expect(not seen, f"left: {seen.splitlines()[:1]}")
    return "shm, msg, sem"


async def many_sysv(make: MakeSandbox) -> str:
    """As many of them as there may be, quickly enough."""
    sandbox = await make()
    await python(sandbox, IPC, 4000)
    planted = await sh(sandbox, "cat /proc/sysvipc/* | wc -l")
    await _cleared(sandbox)
    seen = await sh(sandbox, "tail -qn +2 /proc/sysvipc/* | wc -l")
    expect(seen == "0", f"left: {seen} of {planted}")
    return f"{int(planted) - 3} cleared"


async def message_queues(make: MakeSandbox) -> str:
    """POSIX message queues."""
    sandbox = await make()
    try:
        await python(sandbox, MQUEUE)
    except CheckFailed as refused:
        return f"cannot be made ({refused})"
    await _cleared(sandbox)
    seen = await sh(sandbox, "ls /dev/mqueue")
    expect(not seen, f"left: {seen}")
    return "cleared"


async def keys(make: MakeSandbox) -> str:
    """The kernel's keyrings of the user and of its session."""
    sandbox = await make()
    planted = await python(sandbox, KEYS, "plant")
    await _cleared(sandbox)
    seen = await python(sandbox, KEYS, "look")
    expect(seen == "0", f"{seen} of {planted} keys are left")
    return "cannot be planted" if planted == "0" else "cleared"


async def background(make: MakeSandbox) -> str:
    """Processes in the background, in sessions of their own, and what they listen on."""
    sandbox = await make()
    listen = (
        "import os, socket, time\nos.setsid()\na = socket.socket(socket.AF_UNIX); a.bind('\\0planted'); a.listen()\n"
        "b = socket.socket(); b.bind(('127.0.0.1', 7777)); b.listen(); os.close(1); os.close(2); time.sleep(600)"
    )
    await sh(sandbox, 'python3 -c "$CODE" & sleep 0.3', env={"CODE": listen})
    await sh(sandbox, "(setsid nohup sleep 600.31 >/dev/null 2>&1 &)")
    await _cleared(sandbox)
    look = (
        "import socket\nfor kind, where in ((socket.AF_UNIX, '\\0planted'), (socket.AF_INET, ('127.0.0.1', 7777))):\n"
        "    with socket.socket(kind) as one: print(one.connect_ex(where))"
    )
    seen = (await python(sandbox, look)).split()
    expect("0" not in seen, "what it listened on still answers")
    expect((await sh(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).count("600.31") == 0, "a process is left")
    return "processes, sockets"


RESETS: dict[str, Case] = {
    "left: files": files,
    "left: rights": rights,
    "left: deep trees": deep_trees,
    "left: many files": many_files,
    "left: attributes": attributes,
    "left: System V": sysv,
    "left: much System V": many_sysv,
    "left: mqueue": message_queues,
    "left: keys": keys,
    "left: processes": background,
}
