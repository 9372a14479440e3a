"""Sandboxes (floor 1): isolated machines in which environments run. Nothing here depends on reinforcement learning.

``lease(SandboxSpec(...), timeout_s=...)`` returns a clean sandbox, to run commands in and to exchange files with. The
borrower does not depend on the backend (Docker or bubblewrap) or on the provider (this process or a Ray cluster).

Invariants: the behavior of a command is in its ``ExecResult``; every raised error except ``FileError``,
``StreamError`` and ``SandboxBroken`` is a failure of the infrastructure; each sandbox ends when its owner dies.

To add a backend, see ``backends``.
"""

from .errors import FileError, NodeLost, SandboxBroken, SandboxError, SandboxLost, StreamError
from .lease import SandboxLease
from .provider import lease, set_provider
from .sandbox import ExecResult
from .spec import SandboxSpec
from .transport.tree import Entry, Kind, Tree

__all__ = [
    "Entry",
    "ExecResult",
    "FileError",
    "Kind",
    "NodeLost",
    "SandboxBroken",
    "SandboxError",
    "SandboxLease",
    "SandboxLost",
    "SandboxSpec",
    "StreamError",
    "Tree",
    "lease",
    "set_provider",
]
