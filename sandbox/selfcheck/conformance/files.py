"""Conformance: files are written and read completely, with the rights of the sandbox user, and only in the sandbox."""

import contextlib
from time import monotonic

from ...errors import FileError
from ...sandbox import Sandbox
from ...transport.tree import Entry, Kind, Tree
from ..harness import Cases, CheckFailed, MakeSandbox, expect, python, raises, sh

NAMES = {
    "plain.txt": b"text\n",
    "a/b/c/deep.txt": b"deep",
    "empty": b"",
    "é/日本 \U0001f600.txt": "é 日本".encode(),
    "bytes.bin": bytes(range(256)) * 300,
    "with space/'\"$;`": b"odd",
    "line\nbreak": b"odd",
    "-rf": b"odd",
    ".hidden/.file": b"hidden",
}
OUTSIDE = ("/etc/hostname", "/etc/passwd", "/usr/bin/env", "/proc/self/environ")

CASES = Cases()


@CASES.add("files")
async def round_trip(sandbox: Sandbox) -> str:
    """Written files are read unchanged and belong to the sandbox user."""
    await sandbox.write(NAMES, timeout_s=10)
    found = await sandbox.read(".", timeout_s=10)
    expect(found == NAMES, f"differ: {sorted(set(found) ^ set(NAMES)) or 'contents'}")
    expect(await sandbox.read("a", timeout_s=10) == {"b/c/deep.txt": b"deep"}, "names are not relative to the folder")
    expect(
        await sandbox.read("/workspace/plain.txt", timeout_s=10) == {".": b"text\n"}, "one file is not returned as `.`"
    )
    await sh(sandbox, "echo more >> plain.txt && test -O a/b && rm -r a")
    expect((await sandbox.read("plain.txt", timeout_s=10))["."] == b"text\nmore\n", "a change by a command is not read")
    return f"{len(NAMES)} files"


@CASES.add("overwriting")
async def overwriting(sandbox: Sandbox) -> str:
    """Writing replaces a file, also by a shorter one; ``executable`` makes new and existing files executable."""
    await sandbox.write({"run": b"x" * 1000}, timeout_s=10)
    await sandbox.write({"run": b"#!/bin/sh\necho ran\n"}, timeout_s=10, executable=True)
    expect(await sh(sandbox, "./run") == "ran", "the written program does not run")
    await sandbox.write({}, timeout_s=10)
    return "shorter, executable"


@CASES.add("special files")
async def special_files(sandbox: Sandbox) -> str:
    """Odd names, links and special files do not break reading, and links are not followed."""
    await python(
        sandbox,
        "import os, socket\n"
        "open(b'\\xff\\xfe', 'w').close(); open('kept', 'w').write('kept')\n"
        "os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'folder'); os.symlink('loop', 'loop')\n"
        "os.symlink('kept', 'inner'); os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')\n"
        "os.mkdir('closed'); open('closed/in', 'w').close(); os.chmod('closed', 0)\n"
        "open('unreadable', 'w').write('secret'); os.chmod('unreadable', 0)",
    )
    began = monotonic()
    found = await sandbox.read(".", timeout_s=10)
    took = monotonic() - began
    expect(took < 1.0, f"reading took {took:.1f} s")
    expect(found.get("kept") == b"kept", "a regular file next to them is not read")
    expect(not {"link", "inner", "loop", "fifo", "socket", "unreadable"} & set(found), f"read: {sorted(found)}")
    expect(not any(name.startswith(("folder/", "closed/")) for name in found), f"read: {sorted(found)}")
    return "links, pipes, sockets and unreadable folders are skipped"


@CASES.add("missing files")
async def missing_files(sandbox: Sandbox) -> str:
    """Reading a missing file raises FileError, and the sandbox stays usable."""
    for path in ("none", "none/at/all", "/none", "plain/below", "a\0b"):
        await raises(FileError, sandbox.read(path, timeout_s=10), f"reading {path!r}")
    await sh(sandbox, "true")
    return "FileError"


@CASES.add("links out")
async def links_out(sandbox: Sandbox) -> str:
    """Neither reading nor writing follows a link to a place that the sandbox user cannot access."""
    await sh(sandbox, "ln -s /etc/shadow one; ln -s /root two; ln -s /etc three; ln -s /run/turnwise four; mkfifo pipe")
    for path in ("one", "two/x", "/root/.bashrc", "/etc/shadow", "/proc/1/mem"):
        try:
            found = await sandbox.read(path, timeout_s=10)
        except FileError:
            continue
        expect(not found, f"{path} was read")
    for path in ("one", "two/x", "three/x", "four/x", "/etc/x", "/x", "/usr/x", "/run/turnwise/x", "/proc/x", "pipe"):
        await raises(FileError, sandbox.write({path: b"x"}, timeout_s=10), f"writing {path}")
    return "links, absolute paths, a pipe"


@CASES.add("large files", read_mib=4)
async def large_files(sandbox: Sandbox) -> str:
    """Files over the read limit raise FileError before they are read: one, many, a sparse terabyte, a device."""
    await sh(sandbox, "head -c 4194304 /dev/zero > full && mkdir many && cp full many/0 && echo x > many/1")
    expect(
        len((await sandbox.read("full", timeout_s=10))["."]) == 4 << 20, "a file of exactly the limit cannot be read"
    )
    await raises(FileError, sandbox.read("many", timeout_s=10), "reading two files over the limit")
    done = await sandbox.exec(["truncate", "-s", "1T", "sparse"], timeout_s=10)
    if done.exit_code == 0:
        began = monotonic()
        await raises(FileError, sandbox.read("sparse", timeout_s=10), "reading a sparse terabyte")
        took = monotonic() - began
        expect(took < 1.0, f"a sparse terabyte took {took:.1f} s")
    for path in ("/dev/zero", "/dev/urandom"):
        with contextlib.suppress(FileError):
            expect(not await sandbox.read(path, timeout_s=10), f"{path} was read")
    await sh(sandbox, "true")
    return "over 4 MiB; a sparse terabyte cannot be " + ("made" if done.exit_code else "read")


CHANGES = """
:
echo a > one
printf 'a\\nb' > one
mv one two
mkdir d; mv two d
rm -r d; echo > é
chmod 600 é
mkdir empty
rmdir empty; ln -s é link
ln -sfn none link
ln é hard
rm hard; cp é hard
mkfifo pipe
""".strip().splitlines()


@CASES.add("changes")
async def changes(sandbox: Sandbox) -> str:
    """An unchanged tree is not transferred; every change of a name, kind, mode or content changes the digest."""
    digests = set()
    for script in CHANGES:
        await sh(sandbox, script)
        digest, tree = await sandbox.read_changes(".", "", timeout_s=10)
        expect(tree is not None, f"after {script!r}, the tree is not transferred")
        expect(
            tree == await sandbox.read(".", timeout_s=10), f"after {script!r}, the files differ from those of `read`"
        )
        again = await sandbox.read_changes(".", digest, timeout_s=10)
        expect(again == (digest, None), f"after {script!r}, an unchanged tree is transferred")
        digests.add(digest)
    expect(len(digests) == len(CHANGES), "two states have one digest")
    await raises(FileError, sandbox.read_tree("none", timeout_s=10), "reading a missing path")
    return f"{len(CHANGES)} states"


GROW = """
import os, socket
os.makedirs(b"a/empty/\\xff\\n x"); os.mkdir("closed")
for name, mode in ((b"-rf", 0o644), (b"run", 0o755), (b"read", 0o444), (b"set", 0o4755), (b"\\xfe\\n", 0o600)):
    with open(name, "wb") as file: file.write(bytes(range(256)) + name)
    os.utime(name, ns=(10**18, 10**18 + len(name))); os.chmod(name, mode)
os.link("run", "a/run"); os.symlink("../run", "a/up"); os.symlink("/etc/passwd", "out"); os.symlink(b"\\xff", "no")
os.symlink("a", "folder"); os.symlink("loop", "loop"); os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("end")
open("closed/in", "w").close(); os.chmod("closed", 0o200); os.chmod("a", 0o555)
"""
GROWN = """
import os
found = []
for top, folders, files in os.walk(b"."):
    for name in sorted(folders + files):
        path = os.path.join(top, name); one = os.lstat(path)
        link = os.readlink(path) if os.path.islink(path) else b""
        body = open(path, "rb").read() if not link and os.path.isfile(path) else b""
        found.append((path, one.st_mode, one.st_nlink, one.st_mtime_ns if body else 0, link, body))
print(sorted(found))
"""


async def trees(make: MakeSandbox) -> str:
    """A tree keeps names, kinds, modes, times, links and hard links in a new sandbox, and names its losses."""
    one, other = await make(), await make()
    await python(one, GROW)
    tree = await one.read_tree(".", timeout_s=10)
    lost = {path: entry.text for path, entry in tree.entries.items() if entry.kind is Kind.LOST}
    expect(lost == {"pipe": "a named pipe", "end": "a socket", "closed": "permission denied"}, f"lost: {lost}")
    await other.write_tree(".", tree, timeout_s=10)
    await sh(one, "rm -r pipe end; chmod 700 closed; rm -r closed")
    before, after = await python(one, GROWN), await python(other, GROWN)
    expect(before == after, f"the trees differ: {before[:2000]} and {after[:2000]}")
    for path in ("run/x", "a/empty", "a/new"):
        await raises(FileError, other.write_tree(".", Tree({path: Entry.file(b"")}), timeout_s=10), f"writing {path}")
    return f"{len(tree.entries)} entries"


CASES["trees"] = trees


@CASES.add("full disk", disk_mib=16)
async def full_disk(sandbox: Sandbox) -> str:
    """Writing to a full disk raises FileError; the sandbox stays usable and can be reset."""
    await raises(FileError, sandbox.write({"big": b"x" * (20 << 20)}, timeout_s=20), "writing more than the disk holds")
    await sh(sandbox, "rm -f big && echo x > small")
    await sandbox.exec(["sh", "-c", "cat /dev/zero > full"], timeout_s=20)
    await raises(FileError, sandbox.write({"one": b"x" * 4096}, timeout_s=10), "writing to a full disk")
    await sandbox.reset(timeout_s=10)
    await sandbox.write({"big": b"x" * (8 << 20)}, timeout_s=20)
    return "FileError"


@CASES.add("deep tree")
async def deep_tree(sandbox: Sandbox) -> str:
    """A tree that is deeper than the maximum length of a path does not break reading."""
    await python(sandbox, DEEP, 1500)
    try:
        found = await sandbox.read(".", timeout_s=20)
    except FileError:
        return "FileError"
    if found.get("top") != b"top":
        raise CheckFailed("a file next to the deep tree is not read")
    return "the rest is read"


DEEP = """
import os, sys
open("top", "w").write("top")
for _ in range(int(sys.argv[1])):
    os.mkdir("ddd"); os.chdir("ddd")
open("bottom", "w").close()
"""


@CASES.add("slow read")
async def slow_read(sandbox: Sandbox) -> str:
    """A read that exceeds its timeout is an outcome, and the sandbox stays usable."""
    await sh(sandbox, "seq 500 | xargs touch")
    await raises(FileError, sandbox.read(".", timeout_s=0), "reading for longer than the timeout")
    await sh(sandbox, "true")
    return "FileError"


@CASES.add("long names", inodes=16384)
async def long_names(sandbox: Sandbox) -> str:
    """Files whose names take up megabytes are an outcome of reading."""
    await python(sandbox, "for n in range(3000): open(bytes([255]) * 240 + b'%d' % n, 'w').close()")
    await raises(FileError, sandbox.read(".", timeout_s=20), "reading files with long names")
    await sh(sandbox, "true")
    return "FileError"


MOVER = """
import ctypes, os
watch = ctypes.CDLL(None).inotify_add_watch
for n in range(200): os.mkdir(f"{n:03}")
os.mkdir("199/moving")
for n in range(8000): os.mkdir(f"199/moving/{n:04}")
events = ctypes.CDLL(None).inotify_init1(0)
watch(events, b"199/moving", 32)
if os.fork() == 0:
    for end in (0, 1, 2): os.close(end)
    for n in range(199, 0, -1):
        watch(events, f"{n:03}/moving".encode(), 32)
        os.read(events, 1 << 20)
        os.rename(f"{n:03}/moving", f"{n - 1:03}/moving")
"""


async def moving_folders(make: MakeSandbox) -> str:
    """A process that moves folders ahead of a read, which finds them many times, cannot exceed its timeout.

    On a busy machine the read may pass before the process moves; then it is tried again.
    """
    for _ in range(3):
        sandbox = await make(inodes=16384)
        await python(sandbox, MOVER)
        began = monotonic()
        passed = True
        try:
            await sandbox.read(".", timeout_s=0.2)
        except FileError:
            passed = False
        took = monotonic() - began
        expect(took < 2.0, f"a read with a timeout of 0.2 s took {took:.1f} s")
        if not passed:
            return "FileError"
    raise CheckFailed("reading folders that a process moves did not raise FileError in three tries")


CASES["moving folders"] = moving_folders
