"""Sandboxes with a browser in them, told by name."""

import subprocess
from collections.abc import Iterator

import pytest
from turnwise.sandbox import set_provider
from turnwise.sandbox.provider import InProcessProvider


@pytest.fixture(scope="package")
def browsers() -> Iterator[None]:
    """Docker sandboxes of the image ``web`` for this process."""
    found = subprocess.run(["docker", "image", "inspect", "turnwise/web"], capture_output=True, check=False)
    if found.returncode:
        pytest.fail("no image turnwise/web here: `turnwise sandbox build web` makes it, and so does `make test`")
    source = InProcessProvider("docker", capacity=3, warm=0)
    set_provider(source)
    yield
    set_provider(None)
    source.close()
