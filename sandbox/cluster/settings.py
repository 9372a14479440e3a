"""Settings of the sandboxes of a run."""

from pydantic import BaseModel, ConfigDict, Field


class SandboxSettings(BaseModel):
    """Backend and pool of every node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = Field("auto", pattern="^(auto|docker|local)$")
    """``docker``, ``local`` (bubblewrap), or ``auto``: Docker if an engine answers, else local."""
    max_per_node: int = Field(32, ge=1)
    """Maximum number of sandboxes per node."""
    memory_per_node_mib: int | None = Field(None, ge=64)
    """Maximum memory of all sandboxes of a node together; default: three quarters of the node's memory."""
    warm: int = Field(2, ge=0)
    """Idle sandboxes kept in addition to the leased ones, within ``max_per_node`` and ``memory_per_node_mib``."""
    allow_local_sandbox: bool = False
    """Whether the local backend accepts tasks that are not declared trusted."""
    runtime: str | None = None
    """Another OCI runtime of Docker, such as ``runsc``."""
