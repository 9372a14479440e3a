"""Specification of a sandbox. The pool reuses a sandbox for every lease of a spec with an equal ``container()``."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

GUEST_MEMORY_MIB = 40
"""Memory reserved for the guest agent, in addition to files and commands."""
SHM_MIB = 8
"""Size of ``/dev/shm``."""


class SandboxSpec(BaseModel):
    """Image and limits of one sandbox. Frozen and hashable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str = Field("code", pattern=r"^\S+$")
    """An image of turnwise (``code``, ``web``, ``desktop``) or any reference of an image with Python 3.9."""
    memory_mib: int = Field(256, ge=64)
    """Memory of all processes and files together, without swap."""
    cpus: float = Field(1.0, ge=0.01)
    pids: int = Field(128, ge=8)
    """Limit of processes and threads together."""
    disk_mib: int = Field(64, ge=1)
    """Size of ``/workspace`` and of ``/tmp``, each; both are in memory."""
    inodes: int = Field(16384, ge=64)
    """Limit of files in ``/workspace`` and in ``/tmp``, each."""
    output_kib: int = Field(256, ge=1)
    """Limit of stdout and of stderr of one command, each; a command that exceeds it is killed."""
    read_mib: int = Field(16, ge=1, le=256)
    """Limit of one ``read``."""
    network: Literal["none"] = "none"
    purpose: str = ""
    """The use of the sandbox; equal limits with different purposes never share a sandbox."""
    ttl_s: float = Field(3600.0, gt=0)
    """Time to live: the sandbox ends itself this long after its start, even during a command."""
    trusted: bool = False
    """Whether the code that will run is known to be harmless; the local backend refuses any other spec."""

    def container(self) -> Self:
        """Return the spec without limits of single calls; equal for specs that the same sandbox can serve in turn."""
        fields = type(self).model_fields
        return self.model_copy(update={name: fields[name].default for name in ("output_kib", "read_mib")})

    @model_validator(mode="after")
    def _check_files_fit(self) -> Self:
        files_mib = 2 * self.disk_mib + SHM_MIB
        if files_mib + GUEST_MEMORY_MIB > self.memory_mib:
            raise ValueError(
                f"`memory_mib` {self.memory_mib} is too small for `disk_mib` {self.disk_mib}: /workspace and /tmp are "
                f"in memory, so set `memory_mib` to at least {files_mib + GUEST_MEMORY_MIB} or reduce `disk_mib`"
            )
        return self
