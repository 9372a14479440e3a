"""Sandboxes (floor 1): isolated machines for environments to run in. Nothing here knows of reinforcement learning.

``lease(SandboxSpec(...), deadline=...)`` gives a clean one, to run commands in and move files to and from; where it
comes from (Docker or bubblewrap, this process or a Ray cluster) is not the borrower's concern. What a command does is
in its ``ExecResult``; what is raised is the world's failure, but for ``FileError``.
"""

from .errors import FileError, SandboxError, SandboxLost
from .lease import SandboxLease, lease, set_provider
from .protocol import ExecResult
from .spec import SandboxSpec

__all__ = [
    "ExecResult",
    "FileError",
    "SandboxError",
    "SandboxLease",
    "SandboxLost",
    "SandboxSpec",
    "lease",
    "set_provider",
]
