"""Sandboxes (floor 1): isolated machines for environments to run in. Nothing here knows of reinforcement learning.

``lease(SandboxSpec(...), deadline=...)`` gives a clean one, to run commands in and move files to and from; where it
comes from (Docker or bubblewrap, this process or a Ray cluster) is not the borrower's concern. What a command does is
in its ``Finished``; what is raised is the world's failure, but for ``FileError``.
"""

from .errors import FileError, SandboxError, SandboxLost
from .lease import Leased, lease, use
from .protocol import Finished
from .spec import SandboxSpec

__all__ = ["FileError", "Finished", "Leased", "SandboxError", "SandboxLost", "SandboxSpec", "lease", "use"]
