"""Conformance: files go in and out whole, with the payload's rights, and never lead out of the sandbox."""

import contextlib
from time import monotonic

from ...errors import FileError
from ..harness import Case, CheckFailed, MakeSandbox, expect, python, raises, sh

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


async def round_trip(make: MakeSandbox) -> str:
    """What is written is read, and is the payload's own."""
    sandbox = await make()
    await sandbox.write(NAMES, timeout_s=10)
    found = await sandbox.read(".", timeout_s=10)
    expect(found == NAMES, f"differ: {sorted(set(found) ^ set(NAMES)) or 'contents'}")
    expect(
        await sandbox.read("a", timeout_s=10) == {"b/c/deep.txt": b"deep"}, "a folder's names are not relative to it"
    )
    expect(await sandbox.read("/workspace/plain.txt", timeout_s=10) == {".": b"text\n"}, "one file is not read as one")
    await sh(sandbox, "echo more >> plain.txt && test -O a/b && rm -r a")
    expect(
        (await sandbox.read("plain.txt", timeout_s=10))["."] == b"text\nmore\n", "the payload's own change is not seen"
    )
    return f"{len(NAMES)} files"


async def overwriting(make: MakeSandbox) -> str:
    """Writing replaces, shorter too; ``executable`` makes what is written a program, new or not."""
    sandbox = await make()
    await sandbox.write({"run": b"x" * 1000}, timeout_s=10)
    await sandbox.write({"run": b"#!/bin/sh\necho ran\n"}, timeout_s=10, executable=True)
    expect(await sh(sandbox, "./run") == "ran", "it does not run")
    await sandbox.write({}, timeout_s=10)
    return "shorter, executable"


async def of_commands(make: MakeSandbox) -> str:
    """What commands leave is read: odd names, links and special files neither break nor are followed."""
    sandbox = await make()
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
    expect(found.get("kept") == b"kept", "a plain file beside them is not read")
    expect(not {"link", "inner", "loop", "fifo", "socket", "unreadable"} & set(found), f"read: {sorted(found)}")
    expect(not any(name.startswith(("folder/", "closed/")) for name in found), f"read: {sorted(found)}")
    return "links, pipes, sockets, closed folders left out"


async def absent(make: MakeSandbox) -> str:
    """A file that is not there is a FileError, and the sandbox goes on."""
    sandbox = await make()
    for path in ("none", "none/at/all", "/none", "plain/below", "a\0b"):
        await raises(FileError, sandbox.read(path, timeout_s=10), f"reading {path!r}")
    await sh(sandbox, "true")
    return "FileError"


async def no_way_out(make: MakeSandbox) -> str:
    """Neither reading nor writing follows a link to where the payload could not go itself."""
    sandbox = await make()
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


async def too_large(make: MakeSandbox) -> str:
    """More than may be read is a FileError before it is read: one file, many, a sparse terabyte, endless devices."""
    sandbox = await make(read_mib=4)
    await sh(sandbox, "head -c 4194304 /dev/zero > full && mkdir many && cp full many/0 && echo x > many/1")
    expect(len((await sandbox.read("full", timeout_s=10))["."]) == 4 << 20, "just the limit cannot be read")
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


async def full_disk(make: MakeSandbox) -> str:
    """Writing to a full disk is a FileError; the sandbox goes on and can be cleared."""
    sandbox = await make(disk_mib=16)
    await raises(FileError, sandbox.write({"big": b"x" * (20 << 20)}, timeout_s=20), "writing beyond the disk")
    await sh(sandbox, "rm -f big && echo x > small")
    await sandbox.exec(["sh", "-c", "cat /dev/zero > full"], timeout_s=20)
    await raises(FileError, sandbox.write({"one": b"x" * 4096}, timeout_s=10), "writing to a full disk")
    await sandbox.reset(timeout_s=10)
    await sandbox.write({"big": b"x" * (8 << 20)}, timeout_s=20)
    return "FileError"


async def deep_tree(make: MakeSandbox) -> str:
    """A tree deeper than any path can be long does no harm to reading."""
    sandbox = await make()
    await python(sandbox, DEEP, 1500)
    try:
        found = await sandbox.read(".", timeout_s=20)
    except FileError:
        return "FileError"
    if found.get("top") != b"top":
        raise CheckFailed("a file beside it is not read")
    return "the rest is read"


DEEP = """
import os, sys
open("top", "w").write("top")
for _ in range(int(sys.argv[1])):
    os.mkdir("ddd"); os.chdir("ddd")
open("bottom", "w").close()
"""

FILES: dict[str, Case] = {
    "files": round_trip,
    "overwriting": overwriting,
    "special files": of_commands,
    "absent files": absent,
    "links out": no_way_out,
    "large files": too_large,
    "full disk": full_disk,
    "deep tree": deep_tree,
}
