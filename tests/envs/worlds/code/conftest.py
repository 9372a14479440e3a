"""Fixtures of the code environments: the two backends."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from turnwise.sandbox import set_provider
from turnwise.sandbox.images.reference import image_reference
from turnwise.sandbox.provider import InProcessProvider


def _answers(backend: str) -> bool:
    if backend == "local":
        return shutil.which("bwrap") is not None
    docker = shutil.which("docker")
    return (
        docker is not None
        and subprocess.run([docker, "image", "inspect", image_reference("code")], capture_output=True).returncode == 0
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
    """Yield each backend in turn."""
    yield from _sandboxes(request.param)


@pytest.fixture(scope="module")
def docker() -> Iterator[str]:
    """Yield the Docker backend."""
    yield from _sandboxes("docker")


@pytest.fixture(scope="module")
def local() -> Iterator[str]:
    """Yield the local backend."""
    yield from _sandboxes("local")


@pytest.fixture(scope="module")
def any_sandboxes() -> Iterator[str]:
    """Yield one backend, for tests that run on either."""
    yield from _sandboxes("docker")
