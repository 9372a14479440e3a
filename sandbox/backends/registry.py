"""Backend protocol and the selection of a backend by name."""

from typing import Protocol

from ..errors import NoEngine
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from .listing import SandboxInfo

BACKENDS = ("docker", "local")


class Backend(Protocol):
    """Starts sandboxes and removes those whose owner is dead."""

    @property
    def name(self) -> str:
        """Return one of ``BACKENDS``."""
        ...

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox, ready for commands. Raises SandboxError."""
        ...

    async def reap(self) -> list[str]:
        """Remove every sandbox that is certainly dead, and return their ids. Raises SandboxError."""
        ...

    async def list_sandboxes(self) -> list[SandboxInfo]:
        """Return every sandbox of the backend. Raises SandboxError."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...


def make_backend(name: str, run: str = "", *, allow_untrusted: bool = False, runtime: str | None = None) -> Backend:
    """Return the backend ``docker``, ``local`` or ``auto``: Docker if an engine answers, else local.

    ``run`` is the owner's run in labels, ``runtime`` another OCI runtime of Docker.

    Raises:
        NoEngine: the backend is not available on this machine; the text names the package to install.
        ValueError: the name is unknown.
    """
    from .bubblewrap import BubblewrapBackend
    from .docker import DockerBackend

    if name == "docker":
        return DockerBackend(run, runtime=runtime)
    if name == "local":
        return BubblewrapBackend(allow_untrusted=allow_untrusted)
    if name != "auto":
        raise ValueError(f"unknown sandbox backend {name!r}; the backends are auto, {', '.join(BACKENDS)}")
    try:
        return DockerBackend(run, runtime=runtime)
    except NoEngine as no_docker:
        try:
            return BubblewrapBackend(allow_untrusted=allow_untrusted, docker_error=str(no_docker))
        except NoEngine as no_bubblewrap:
            raise NoEngine(f"{no_docker}; {no_bubblewrap}") from no_bubblewrap
