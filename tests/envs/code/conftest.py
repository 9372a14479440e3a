"""What the tests of code environments share: the two backends, each told by name, and how many seeds they try."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from turnwise.sandbox import set_provider
from turnwise.sandbox.provider import InProcessProvider

SEEDS = int(os.environ.get("TURNWISE_CODE_SEEDS", "20"))


def _answers(backend: str) -> bool:
    if backend == "local":
        return shutil.which("bwrap") is not None
    docker = shutil.which("docker")
    return (
        docker is not None
        and subprocess.run([docker, "image", "inspect", "turnwise/code"], capture_output=True).returncode == 0
    )


def _sandboxes(backend: str) -> Iterator[str]:
    if not _answers(backend):
        pytest.fail(
            f"no {backend} sandboxes here: `make test` installs what they need, `turnwise sandbox build` the images"
        )
    source = InProcessProvider(backend, capacity=16, warm=1)
    set_provider(source)
    yield backend
    set_provider(None)
    source.close()


@pytest.fixture(scope="module", params=["docker", "local"])
def sandboxes(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each backend in turn."""
    yield from _sandboxes(request.param)


@pytest.fixture(scope="module")
def docker() -> Iterator[str]:
    """The Docker backend."""
    yield from _sandboxes("docker")


@pytest.fixture(scope="module")
def any_sandboxes() -> Iterator[str]:
    """One backend, where either would do."""
    yield from _sandboxes("docker")


@pytest.fixture(scope="session")
def seeds() -> int:
    """How many seeds of each family."""
    return SEEDS
