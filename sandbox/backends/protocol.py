"""Protocols of a backend and of its class, and the properties that a backend declares."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import BaseModel

from ..errors import SandboxError
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from .ownership import SandboxInfo


class Containment(StrEnum):
    """One area that a backend may contain. A backend without it is for trusted tasks, which do not attack it."""

    NETWORK = "network"
    """No other machine, no listener of this machine and no other sandbox can be reached."""
    TOTALS = "totals"
    """Limits apply to memory, cpu time and files of all processes together, as by a control group."""
    SYSTEM_CALLS = "system calls"
    """A filter refuses system calls that programs do not need, and commands cannot change the guest agent."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Properties of every sandbox of a backend."""

    contains: frozenset[Containment]
    untrusted: bool
    """Whether tasks that are not declared trusted may run in it by default."""
    images: bool
    """Whether ``SandboxSpec.image`` selects the programs; otherwise they are those of this machine."""
    transport: str
    """How the guest agent reaches the host: ``unix`` or ``tcp``."""

    def describe(self) -> str:
        """Return the properties in one line."""
        areas = ", ".join(area for area in Containment if area in self.contains)
        return (
            f"contains {areas or 'no area'}; {'all' if self.untrusted else 'trusted'} tasks; "
            f"programs of {'an image' if self.images else 'this machine'}; {self.transport} transport"
        )


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """One program, library, kernel feature or image that a backend needs or can use."""

    backend: str
    name: str
    found: bool
    detail: str
    """Its version, or what to do if it is missing."""
    required: bool = True
    """Whether the backend cannot start any sandbox without it."""


class UnknownBackend(SandboxError, ValueError):
    """No backend has this name, or a backend has no such option or value of an option."""


class Backend(Protocol):
    """Starts sandboxes and removes those whose owner is dead."""

    @property
    def name(self) -> str:
        """Return the name that it is registered by."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the properties of its sandboxes."""

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox, ready for commands. Raises SandboxError."""

    async def reap(self) -> list[str]:
        """Remove every sandbox that is certainly dead, and return their ids. Raises SandboxError."""

    async def list_sandboxes(self) -> list[SandboxInfo]:
        """Return every sandbox of the backend. Raises SandboxError."""

    async def close(self) -> None:
        """Release the engine."""


class BackendClass(Protocol):
    """Class of a backend, without an engine: the object of an entry point."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the properties of its sandboxes."""

    @property
    def Options(self) -> type[BaseModel]:
        """Return the type of the backend's settings, the table ``[sandboxes.options]`` of a configuration."""

    def create(self, run: str, options: Any, *, allow_untrusted: bool) -> Backend:
        """Return a backend; ``options`` is an ``Options``, and ``run`` the run that its sandboxes are labeled with.

        ``allow_untrusted`` admits untrusted specs even if ``capabilities`` do not. Raises NoEngine.
        """

    def prerequisites(self) -> list[Prerequisite]:
        """Return the parts of this machine that the backend needs or can use. Raises nothing."""

    def build_image(self, name: str, report: Callable[[str], None], *, base: str | None, again: bool) -> str:
        """Build a shipped image and return its digest, as ``images.build.build`` does.

        Raises:
            NoImage: the backend has no images.
            SandboxError: the build failed.
        """
