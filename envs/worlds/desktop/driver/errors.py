"""The exceptions of the driver."""


class Refused(Exception):
    """An action cannot be executed; the text is one line for the agent."""


class DeadlineExceeded(Exception):
    """The request overran its deadline."""


class DesktopLost(Exception):
    """The X server, the bus or the window manager is gone."""
