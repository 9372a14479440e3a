"""Every error survives pickling, and ``classify`` maps foreign exceptions to the right class."""

import asyncio
import pickle

import pytest
from turnwise.errors import TurnwiseError
from turnwise.sandbox import errors
from turnwise.sandbox.errors import (
    NodeLost,
    NoImage,
    SandboxError,
    SandboxLost,
    StartFailed,
    classify,
)

EVERY = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SandboxError)]


def made(module: str, name: str, message: str = "failed") -> Exception:
    """Return an exception of a library that need not be installed."""
    return type(name, (Exception,), {"__module__": module})(message)


@pytest.mark.parametrize("kind", EVERY)
def test_errors_survive_pickling(kind: type[SandboxError]) -> None:
    error = kind("what happened, to what, what to do")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - as Ray does
    assert (type(again), str(again), again.args) == (kind, str(error), error.args)
    assert isinstance(again, TurnwiseError)


@pytest.mark.parametrize("kind", EVERY)
def test_classify_keeps_sandbox_errors(kind: type[SandboxError]) -> None:
    error = kind("failed")
    assert classify(error, "doing") is error


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (TimeoutError(), SandboxLost, "doing: no answer before the timeout"),
        (ConnectionResetError("gone"), SandboxLost, "ConnectionResetError: gone"),
        (asyncio.IncompleteReadError(b"", 8), SandboxLost, "0 bytes"),
        (EOFError(), SandboxLost, "no details"),
        (made("docker.errors", "ImageNotFound"), NoImage, "turnwise sandbox build"),
        (made("docker.errors", "APIError"), StartFailed, "APIError: failed"),
        (made("ray.exceptions", "ActorDiedError"), NodeLost, "ActorDiedError: failed"),
        (OSError("disk"), SandboxError, "OSError: disk"),
        (ValueError("odd"), SandboxError, "doing: ValueError: odd"),
    ],
)
def test_classify_maps_foreign_exceptions(raised: Exception, kind: type[SandboxError], text: str) -> None:
    error = classify(raised, "doing")
    assert type(error) is kind
    assert text in str(error)
