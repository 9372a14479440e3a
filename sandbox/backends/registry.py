"""What holds sandboxes: a Docker engine, or bubblewrap on this machine. The pool asks no more of it than this."""

from typing import Any, Protocol

from ..errors import NoEngine
from ..sandbox import Box
from ..spec import SandboxSpec

BACKENDS = ("docker", "local")


class Backend(Protocol):
    """Starts boxes and clears away those whose owner is dead."""

    @property
    def name(self) -> str:
        """``docker`` or ``local``."""
        ...

    async def start(self, spec: SandboxSpec) -> Box:
        """A new sandbox, ready for commands. Raises SandboxError."""
        ...

    async def sweep(self) -> list[str]:
        """Remove what is surely dead, and give its names. Raises SandboxError."""
        ...

    async def listed(self) -> list[dict[str, Any]]:
        """Every sandbox there is: id, status, image, labels, and ``dead``, why it might be removed."""
        ...

    async def close(self) -> None:
        """Let go of the engine."""
        ...


def backend(name: str, run: str = "", *, allow_untrusted: bool = False, runtime: str | None = None) -> Backend:
    """The backend of that name; ``auto`` is Docker where its engine answers, else the local one.

    Raises:
        NoEngine: it is not to be had here; the text says what to install.
        ValueError: there is no such backend.
    """
    from .bubblewrap import LocalBackend
    from .docker import DockerBackend

    if name == "docker":
        return DockerBackend(run, runtime=runtime)
    if name == "local":
        return LocalBackend(run, allow_untrusted=allow_untrusted)
    if name != "auto":
        raise ValueError(f"no sandbox backend {name!r}: there are auto, {', '.join(BACKENDS)}")
    try:
        return DockerBackend(run, runtime=runtime)
    except NoEngine as without:
        try:
            return LocalBackend(run, allow_untrusted=allow_untrusted, instead=str(without))
        except NoEngine as neither:
            raise NoEngine(f"{without}; {neither}") from neither
