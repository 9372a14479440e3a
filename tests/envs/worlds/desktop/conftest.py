"""Sandboxes with a desktop, and one desktop for all modules."""

import subprocess
from collections.abc import Iterator

import pytest
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.sandbox import set_provider
from turnwise.sandbox.images.reference import image_reference
from turnwise.sandbox.provider import InProcessProvider


@pytest.fixture(scope="package")
def desktops() -> Iterator[None]:
    """Provide Docker sandboxes of the image ``desktop`` to this process."""
    image = image_reference("desktop")
    found = subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False)
    if found.returncode:
        pytest.fail(f"the image `{image}` is missing: run `turnwise sandbox build desktop`")
    provider = InProcessProvider("docker", capacity=3, warm=0)
    set_provider(provider)
    yield
    set_provider(None)
    provider.close()


@pytest.fixture(scope="package")
def desktop(desktops: None) -> Iterator[DesktopSession]:
    """One desktop for the episodes of every module that does not test its start."""
    made = DesktopSession()
    yield made
    made.close()
