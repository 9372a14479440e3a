"""Every error crosses a process whole, and whatever is raised becomes one of ours with the fault in the right place."""

import asyncio
import pickle

import pytest
from turnwise.errors import TurnwiseError
from turnwise.sandbox import errors
from turnwise.sandbox.errors import (
    FileError,
    NodeLost,
    NoEngine,
    NoImage,
    SandboxError,
    SandboxLost,
    StartFailed,
    classify,
    is_outcome,
)

EVERY = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SandboxError)]


def made(module: str, name: str, said: str = "said") -> Exception:
    """An exception of a library that need not be installed."""
    return type(name, (Exception,), {"__module__": module})(said)


@pytest.mark.parametrize("kind", EVERY)
def test_it_survives_pickling(kind: type[SandboxError]) -> None:
    error = kind("what happened, to what, what to do")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what Ray does
    assert (type(again), str(again), again.args) == (kind, str(error), error.args)
    assert isinstance(again, TurnwiseError)


@pytest.mark.parametrize("kind", EVERY)
def test_one_of_ours_stays_as_it_is(kind: type[SandboxError]) -> None:
    error = kind("said")
    assert classify(error, "doing") is error
    assert is_outcome(error) == (kind is FileError)


@pytest.mark.parametrize(
    ("raised", "kind", "told"),
    [
        (TimeoutError(), SandboxLost, "doing: no answer before the timeout"),
        (ConnectionResetError("gone"), SandboxLost, "ConnectionResetError: gone"),
        (asyncio.IncompleteReadError(b"", 8), SandboxLost, "0 bytes"),
        (EOFError(), SandboxLost, "no details"),
        (made("docker.errors", "ImageNotFound"), NoImage, "turnwise sandbox build"),
        (made("docker.errors", "APIError"), StartFailed, "APIError: said"),
        (made("ray.exceptions", "ActorDiedError"), NodeLost, "ActorDiedError: said"),
        (OSError("disk"), SandboxError, "OSError: disk"),
        (ValueError("odd"), SandboxError, "doing: ValueError: odd"),
    ],
)
def test_whatever_is_raised_is_told(raised: Exception, kind: type[SandboxError], told: str) -> None:
    error = classify(raised, "doing")
    assert type(error) is kind
    assert told in str(error)
    assert not is_outcome(error)


def test_no_engine_is_the_worlds_failure() -> None:
    assert not is_outcome(NoEngine("none"))
    assert not is_outcome(ValueError("none"))
