"""Settings of the sandboxes of a run."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..backends.registry import check_options
from ..errors import SandboxError


class SandboxSettings(BaseModel):
    """Backend and pool of every node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = "auto"
    """``docker``, ``local`` (bubblewrap), any registered one, or ``auto``: Docker if an engine answers, else local."""
    max_per_node: int = Field(32, ge=1)
    """Maximum number of sandboxes per node."""
    memory_per_node_mib: int | None = Field(None, ge=64)
    """Maximum memory of all sandboxes of a node together; default: three quarters of the node's memory."""
    warm: int = Field(2, ge=0)
    """Idle sandboxes kept in addition to the leased ones, within ``max_per_node`` and ``memory_per_node_mib``."""
    allow_local_sandbox: bool = False
    """Whether the local backend accepts tasks that are not declared trusted."""
    options: dict[str, Any] = {}
    """Settings of the backend. Docker: ``runtime``, another OCI runtime such as ``runsc``."""

    @model_validator(mode="after")
    def _check_backend(self) -> Self:
        try:
            check_options(self.backend, self.options)
        except SandboxError as error:
            raise ValueError(str(error)) from None
        return self
