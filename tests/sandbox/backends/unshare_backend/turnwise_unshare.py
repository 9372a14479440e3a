"""A sandbox backend of util-linux alone: namespaces by `unshare`, a root by `mount`, and TCP to the host.

It shares the network of the machine, so it is for trusted tasks only.
"""

import asyncio
import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict
from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.backends.ownership import SandboxInfo, describe
from turnwise.sandbox.backends.protocol import Capabilities, Prerequisite
from turnwise.sandbox.errors import NoEngine, NoImage, NotTrusted, StartFailed
from turnwise.sandbox.guest.frames import TOKEN_VARIABLE
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.transport.listener import TcpListener, guest_command, prepare_folder

START_TIMEOUT_S = 20.0
SETUP = """
set -e
guest=$1 mib=$2 inodes=$3; shift 3
mount -t tmpfs -o size=1m,mode=755 root /mnt
cd /mnt
mkdir -p old usr proc dev/shm dev/mqueue tmp workspace run/turnwise
for name in bin sbin lib lib64; do if [ -L /$name ]; then ln -s usr/$name $name; fi; done
mount --rbind /usr usr; mount -o remount,bind,ro usr
mount --bind "$guest" run/turnwise; mount -o remount,bind,ro run/turnwise
mount -t proc proc proc
mount --bind proc/sys proc/sys; mount -o remount,bind,ro proc/sys
for name in null zero urandom; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mount -t mqueue mqueue dev/mqueue
limits=nr_inodes=$inodes,nosuid,nodev
mount -t tmpfs -o size=${mib}m,$limits,mode=755 none workspace
mount -t tmpfs -o size=${mib}m,$limits,mode=1777 none tmp
mount -t tmpfs -o size=$((mib / 2))m,$limits,mode=1777 none dev/shm
pivot_root . old
umount -l old
mount -o remount,bind,ro /
exec setpriv --no-new-privs unshare --user --map-user=10001 --map-group=10001 "$@"
"""
"""Arguments: the folder of the guest agent, MiB and inodes of each writable folder, and the command to run."""


class UnshareOptions(BaseModel):
    """Settings of this backend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first_uid: int = 1_950_000_000
    """The first of the machine's uids that sandboxes run as, one each."""


class UnshareBackend:
    """Starts sandboxes as children of this process."""

    name = "unshare"
    capabilities = Capabilities(frozenset(), untrusted=False, images=False, transport="tcp")
    Options = UnshareOptions

    @classmethod
    def create(cls, run: str, options: UnshareOptions, *, allow_untrusted: bool) -> Self:
        """Return a backend. Raises NoEngine."""
        if missing := [one.name for one in cls.prerequisites() if not one.found]:
            raise NoEngine(f"the backend `unshare` needs {', '.join(missing)}: apt-get install util-linux python3")
        return cls(options)

    @classmethod
    def prerequisites(cls) -> list[Prerequisite]:
        """Return the programs."""
        found = {name: shutil.which(name) for name in ("unshare", "setpriv", "python3")}
        return [Prerequisite(cls.name, name, bool(path), path or "apt-get install") for name, path in found.items()]

    @classmethod
    def build_image(cls, name: str, report: object, *, base: str | None, again: bool) -> str:
        """Refuse. Raises NoImage."""
        raise NoImage("the backend `unshare` has no images: its sandboxes use the programs of this machine")

    def __init__(self, options: UnshareOptions) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tw-unshare-"))
        self.folder.chmod(0o711)
        self._uids = itertools.count(options.first_uid)
        self._open: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox, ready for commands. Raises NotTrusted, StartFailed."""
        if not spec.trusted:
            raise NotTrusted("the backend `unshare` shares the network of this machine: set `trusted`, or use Docker")
        name = f"unshare-{uuid4().hex[:12]}"
        guest = self.folder / name
        prepare_folder(guest)
        limits = {"NPROC": spec.pids, "AS": spec.memory_mib << 20, "NOFILE": 1024, "CORE": 0}
        async with TcpListener(name) as listener:
            address = f"tcp:{listener.host}:{listener.port}"
            command = guest_command("python3", "-", spec.ttl_s, json.dumps(limits), address=address)
            setup = ["sh", "-c", SETUP, "sh", str(guest), str(spec.disk_mib), str(spec.inodes)]
            namespaces = ("--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
            process = await asyncio.create_subprocess_exec(
                *self._change_user(),
                *("unshare", *namespaces, *setup, *command),
                stdin=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", TOKEN_VARIABLE: listener.token},
            )
            try:
                connection = await listener.accept(START_TIMEOUT_S)
            except (TimeoutError, OSError) as error:
                process.kill()
                raise StartFailed(f"the backend `unshare` could not start a sandbox: {error!r}") from error
        self._open[name] = process

        async def on_close() -> None:
            await self._open.pop(name).wait()
            shutil.rmtree(guest, ignore_errors=True)

        return Sandbox(name, spec, connection, on_close)

    def _change_user(self) -> list[str]:
        """Return the prefix that changes to a user that no other sandbox of this process has, if the user is root."""
        uid = next(self._uids)
        return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"] if os.geteuid() == 0 else []

    async def reap(self) -> list[str]:
        """Return an empty list: a sandbox ends with the connection to its owner."""
        return []

    async def list_sandboxes(self) -> list[SandboxInfo]:
        """Return the sandboxes of this process."""
        return [describe(name, "running", "", {}, "") for name in self._open]

    async def close(self) -> None:
        """Remove the folder of this backend."""
        shutil.rmtree(self.folder, ignore_errors=True)
