"""The errors of a page: the base class of Playwright's errors, and the same class for the driver's own session."""

from __future__ import annotations

try:
    from playwright.async_api import Error as PlaywrightError
except ModuleNotFoundError:
    # Only the sandbox image contains Playwright; on the host, tests import modules that name the class.
    class PlaywrightError(Exception):  # type: ignore[no-redef]
        """Stands in for Playwright's class."""


GONE = "has been closed"
"""The substring of the error for any call on a closed tab."""


class ProtocolError(PlaywrightError):  # type: ignore[misc]
    """Chromium refused a command, or the tab of a session is closed."""


__all__ = ["GONE", "PlaywrightError", "ProtocolError"]
