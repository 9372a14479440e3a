"""Everything that can go wrong with a sandbox, and whose fault it is.

A flat tree; every error is made of one text, so that all of them survive pickling between Ray's processes. What a
*command* did (it failed, overran its deadline, flooded its output, was killed for memory) is never an error: it is a
``ExecResult``. ``classify`` turns whatever a backend or a socket raised into one of these; it is the only place that
decides between the world's failure and the caller's.
"""

import asyncio

from ..errors import TurnwiseError


class SandboxError(TurnwiseError):
    """The world failed: the episode that met it ends as ``env_error``, never with a reward."""


class NoEngine(SandboxError):
    """There is no sandbox engine on this machine: what is missing, and what to install."""


class NoImage(SandboxError):
    """The image of a spec is not there; ``turnwise sandbox build`` makes it."""


class NotTrusted(SandboxError):
    """The local backend was asked to run what is not declared trusted."""


class StartFailed(SandboxError):
    """A sandbox could not be started, or not in time."""


class LeaseTimeout(SandboxError):
    """No sandbox came free before the deadline; the text says what everyone was waiting for."""


class SandboxLost(SandboxError):
    """The sandbox ended or stopped answering. It is of no further use and is being removed."""


class NodeLost(SandboxError):
    """The process that holds the sandboxes of a node died."""


class FileError(SandboxError):
    """A file could not be read or written as asked: it is absent, too large, or the disk limit was met. What is in the
    sandbox is the agent's doing, so this is an outcome for whoever asked, and the sandbox goes on.
    """


def is_outcome(error: BaseException) -> bool:
    """Whether an error tells of what the command or the caller did, and not of a failing world."""
    return isinstance(error, FileError)


def classify(error: BaseException, what: str) -> SandboxError:
    """``error``, met while doing ``what``, as one of this file's; one that already is stays as it is."""
    if isinstance(error, SandboxError):
        return error
    told = f"{what}: {type(error).__name__}: {str(error).strip() or 'no further word'}"
    kind = f"{type(error).__module__}.{type(error).__name__}"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return SandboxLost(f"{what}: no answer before the deadline")
    if kind == "docker.errors.ImageNotFound":
        return NoImage(f"{told}; `turnwise sandbox build` makes the images of turnwise")
    if kind.startswith("docker.errors."):
        return StartFailed(told)
    if kind.startswith("ray.exceptions."):
        return NodeLost(told)
    if isinstance(error, ConnectionError | EOFError | asyncio.IncompleteReadError):
        return SandboxLost(told)
    return SandboxError(told)
