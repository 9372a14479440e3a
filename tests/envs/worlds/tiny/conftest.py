"""The sandboxes of code, web and desktop environments, for the tiny environments that play in them."""

from turnwise.tests.envs.worlds.code.conftest import any_sandboxes, local, sandboxes
from turnwise.tests.envs.worlds.desktop.conftest import desktop, desktops
from turnwise.tests.envs.worlds.web.conftest import browser, browsers

__all__ = ["any_sandboxes", "browser", "browsers", "desktop", "desktops", "local", "sandboxes"]
