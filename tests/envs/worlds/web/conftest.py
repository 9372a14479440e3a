"""Sandboxes with a browser, one browser for all modules, the site of hostile pages, and a site of one page."""

import subprocess
from collections.abc import Iterator

import pytest
from turnwise.envs.worlds.computer import driver_client
from turnwise.envs.worlds.web.browser_session import BrowserSession
from turnwise.envs.worlds.web.miniwob.env import SERVER
from turnwise.sandbox import set_provider
from turnwise.sandbox.images.reference import image_reference
from turnwise.sandbox.provider import InProcessProvider
from turnwise.tests.envs.worlds.web.hostile_site import STEP_TIMEOUT_S, HostileSite
from turnwise.tests.envs.worlds.web.one_page import OnePage


@pytest.fixture(scope="package")
def browsers() -> Iterator[None]:
    """Provide Docker sandboxes of the image ``web`` to this process."""
    found = subprocess.run(["docker", "image", "inspect", image_reference("web")], capture_output=True, check=False)
    if found.returncode:
        pytest.fail("the image `web` of these files is missing: run `turnwise sandbox build web`")
    provider = InProcessProvider("docker", capacity=3, warm=0)
    set_provider(provider)
    yield
    set_provider(None)
    provider.close()


@pytest.fixture(scope="package")
def browser(browsers: None) -> Iterator[BrowserSession]:
    """One browser, next to the pages of MiniWoB++, for the episodes of every module that does not test its start."""
    made = BrowserSession([SERVER])
    yield made
    made.close()


@pytest.fixture(scope="module")
def site(browser: BrowserSession) -> Iterator[HostileSite]:
    patched = pytest.MonkeyPatch()
    patched.setattr(driver_client, "STEP_TIMEOUT_S", STEP_TIMEOUT_S)
    made = HostileSite()
    made.browser = browser
    yield made
    patched.undo()


@pytest.fixture(scope="module")
def page(browser: BrowserSession) -> OnePage:
    """A site of one page; each test opens its own."""
    made = OnePage()
    made.browser = browser
    return made
