"""The weight transports by name, without importing them.

A package registers a transport by an entry point of the group ``turnwise.weight_transports``: its name, and the class.
"""

import functools
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from ...errors import TurnwiseError, suggestion
from .base import WeightTransport

GROUP = "turnwise.weight_transports"
AUTO = "auto"
SHIPPED = {
    "collective": "turnwise.agents.weights.collective:CollectiveTransport",
    "ipc": "turnwise.agents.weights.ipc:IpcTransport",
    "shm": "turnwise.agents.weights.shm:ShmTransport",
}
"""The entry points of ``pyproject.toml``, for a source tree whose installation is older."""


@functools.cache
def registered() -> dict[str, str]:
    """Return the import path of each registered transport, by name."""
    found = {one.name: one.value for one in entry_points(group=GROUP)}
    return dict(sorted((found | SHIPPED).items()))


def check_name(name: str) -> str:
    """Return ``name``, which is a transport's or ``auto``.

    Raises:
        ValueError: no transport has this name.
    """
    known = [AUTO, *registered()]
    if name not in known:
        raise ValueError(f"no weight transport is called `{name}`{suggestion(name, known)}")
    return name


def transport(name: str) -> WeightTransport:
    """Return a transport by its name.

    Raises:
        TurnwiseError: no transport has this name, or its package cannot be imported.
    """
    known = registered()
    if name not in known:
        raise TurnwiseError(f"no weight transport is called `{name}`{suggestion(name, list(known))}")
    module, _, attribute = known[name].partition(":")
    try:
        return cast(WeightTransport, getattr(import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise TurnwiseError(f"the weight transport `{name}` is registered as `{known[name]}`: {error}") from error
