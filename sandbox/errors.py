"""Errors of sandboxes, each with a clear fault: the infrastructure or the command.

The behavior of a *command* (a nonzero exit, a timeout, too much output, an out-of-memory kill) is never an error but an
``ExecResult``. ``FileError``, ``StreamError`` and ``SandboxBroken`` are outcomes of the agent's actions too. Any other
error is a failure of the infrastructure. Errors have one text as their argument, so that they survive pickling by Ray.

``classify`` is the only function that maps exceptions of engines, sockets and Ray to these classes.
"""

import asyncio

from ..errors import TurnwiseError


class SandboxError(TurnwiseError):
    """The infrastructure failed: the episode ends as ``env_error`` and gets no reward."""


class NoEngine(SandboxError):
    """This machine has no sandbox engine; the text names the missing part and what to install."""


class NoImage(SandboxError):
    """The image of a spec does not exist; `turnwise sandbox build` builds turnwise's own images."""


class NotTrusted(SandboxError):
    """The local backend refuses a spec that is not ``trusted``."""


class TooLarge(SandboxError):
    """The memory of a spec exceeds all memory that the pool of a node may use."""


class StartFailed(SandboxError):
    """A sandbox could not be started, or did not start in time."""


class LeaseTimeout(SandboxError):
    """No sandbox became free before the timeout; the text lists the existing sandboxes and their states."""


class SandboxLost(SandboxError):
    """Something outside the sandbox ended it, or it stopped answering. It cannot be used again and is being removed."""


class SandboxBroken(SandboxError):
    """The commands of the sandbox broke it: they exhausted its memory, or damaged its guest agent.

    It cannot be used again. The commands are the agent's, so this error is an outcome of its actions.
    """


class SandboxBusy(SandboxError):
    """Another request of the same sandbox took all the time of this one, which was not sent.

    The sandbox stays usable.
    """


class NodeLost(SandboxError):
    """The process that holds the sandboxes of a node died or stopped answering."""


class FileError(SandboxError):
    """A file could not be read or written: it is missing or too large, access is denied, or the disk is full.

    The agent controls the files in a sandbox, so this error is an outcome of its actions, and the sandbox stays usable.
    """


class StreamError(SandboxError):
    """A program in the sandbox accepts no connection, closed its input, or its stream was closed.

    The program may be the agent's, so this error is an outcome of its actions, and the sandbox stays usable.
    """


class StreamTimeout(StreamError):
    """A program in the sandbox did not read, write or exit before a timeout."""


OUTCOMES = (FileError, StreamError, SandboxBroken)
"""The errors that the commands in a sandbox cause."""


def classify(error: BaseException, operation: str) -> SandboxError:
    """Return ``error``, raised during ``operation``, as a class of this module; SandboxErrors stay unchanged."""
    if isinstance(error, SandboxError):
        return error
    text = f"{operation}: {type(error).__name__}: {str(error).strip() or 'no details'}"
    kind = f"{type(error).__module__}.{type(error).__name__}"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return SandboxLost(f"{operation}: no answer before the timeout")
    if kind == "docker.errors.ImageNotFound":
        return NoImage(f"{text}; build turnwise's own images, again after an update, with `turnwise sandbox build`")
    if kind.startswith("docker.errors."):
        return StartFailed(text)
    if kind.startswith("ray.exceptions."):
        return NodeLost(text)
    if isinstance(error, ConnectionError | EOFError | asyncio.IncompleteReadError):
        return SandboxLost(text)
    return SandboxError(text)
