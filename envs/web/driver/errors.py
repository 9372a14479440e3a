"""The base class of Playwright's errors, which every call on a page or a session may raise."""

from __future__ import annotations

try:
    from playwright.async_api import Error as PlaywrightError
except ModuleNotFoundError:
    # Only the sandbox image contains Playwright; on the host, tests import modules that name the class.
    class PlaywrightError(Exception):  # type: ignore[no-redef]
        """Stands in for Playwright's class."""


__all__ = ["PlaywrightError"]
