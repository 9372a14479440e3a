"""What any backend's sandbox can do, and what a command's end looks like.

Six methods, all with a deadline in seconds from now. What the *command* does is in the answer; what the *world* does
is raised. A sandbox of which a method raised ``SandboxLost`` is of no further use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .spec import SandboxSpec

WORKSPACE = "/workspace"
"""Where commands start, and what relative paths are relative to."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. At most one of the three flags of force is why it did."""

    exit_code: int
    """Its exit status, or the negative number of the signal that ended it; 127 if it could not be started."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    """It overran its deadline and was killed with everything it had started."""
    output_limit_exceeded: bool = False
    """It printed more than its cap and was killed; what came before is here."""
    oom: bool = False
    """Something in the sandbox was killed for memory meanwhile."""
    seconds: float = 0.0
    """Measured inside."""


class Sandbox(Protocol):
    """An isolated machine with a work folder."""

    @property
    def id(self) -> str:
        """A name no other sandbox of this host has."""
        ...

    @property
    def spec(self) -> SandboxSpec:
        """What it was asked to be."""
        ...

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        output_kib: int | None = None,
    ) -> ExecResult:
        """Run a command as the payload user in the work folder, to its end or to the deadline.

        Children it leaves in the background live on until ``reset``, but for those of a command that was killed.

        Raises:
            SandboxLost: the sandbox ended, or did not answer for some seconds after the deadline.
        """
        ...

    async def request(
        self, socket: str, message: bytes, *, timeout_s: float, output_kib: int | None = None
    ) -> ExecResult:
        """Send a message to what listens on a unix socket in the sandbox, such as a command left running, and take its
        answer until it closes. ``stdout`` is the answer, ``exit_code`` the errno where nothing listens; nothing is
        killed where the deadline or the cap on output is overrun.

        Raises:
            SandboxLost: as for ``exec``.
        """
        ...

    async def read(self, path: str, *, timeout_s: float) -> dict[str, bytes]:
        """A file, or all regular files below a folder, by path relative to it (``.`` for a file itself). As the payload
        user; links are not followed, and what is no regular file is left out.

        Raises:
            FileError: nothing is there, or it is more than ``spec.read_mib``.
            SandboxLost: as for ``exec``.
        """
        ...

    async def write(self, files: Mapping[str, bytes], *, timeout_s: float, executable: bool = False) -> None:
        """Write files by path, as the payload user; folders are made as needed.

        Raises:
            FileError: the payload user may not, or the disk is full.
            SandboxLost: as for ``exec``.
        """
        ...

    async def reset(self, *, timeout_s: float) -> None:
        """End every process of the payload and empty every place it could have written to.

        Raises:
            SandboxLost: as for ``exec``, or something could not be cleared.
        """
        ...

    async def close(self) -> None:
        """End the sandbox. Raises nothing; closing twice is the same as once."""
        ...
