"""What a sandbox is asked to be. Two equal specs can serve one another's leases: the spec is the key of the pool."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SERVER_MIB = 40
"""Memory kept for the step server beside what the files and the payload may take."""
SHM_MIB = 8


class SandboxSpec(BaseModel):
    """Limits of one sandbox. Frozen and hashable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str = "code"
    """One of turnwise's images (``code``, ``web``, ``gui``), or any reference the engine has, with Python 3.9 in it."""
    memory_mib: int = Field(256, ge=64)
    """Memory of everything in it, files included; there is no swap."""
    cpus: float = Field(1.0, gt=0)
    pids: int = Field(128, ge=8)
    """Processes and threads."""
    disk_mib: int = Field(64, ge=1)
    """Size of ``/workspace``, and of ``/tmp``; they lie in memory."""
    inodes: int = Field(16384, ge=64)
    """Files in each of them."""
    output_kib: int = Field(256, ge=1)
    """What one command may print, on stdout and on stderr, before it is ended."""
    read_mib: int = Field(16, ge=1, le=256)
    """What one ``read`` may bring out."""
    network: Literal["none"] = "none"
    ttl: float = Field(3600.0, gt=0)
    """Seconds after which a sandbox ends itself, whatever it is doing."""
    trusted: bool = False
    """Whether what runs in it is known to mean no harm: only then may the local backend hold it."""

    @model_validator(mode="after")
    def _files_fit(self) -> Self:
        files = 2 * self.disk_mib + SHM_MIB
        if files + SERVER_MIB > self.memory_mib:
            raise ValueError(
                f"memory_mib {self.memory_mib} cannot hold /workspace and /tmp of disk_mib {self.disk_mib} each: "
                f"files lie in memory, so it takes {files + SERVER_MIB} or more"
            )
        return self
