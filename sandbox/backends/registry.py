"""Selection of a backend by name among the registered ones.

A package registers a backend by an entry point of the group ``turnwise.sandbox_backends``: its name, and the class.
"""

import functools
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from ...errors import reason, suggestion
from ..errors import NoEngine, SandboxError
from .protocol import Backend, BackendClass, Prerequisite, UnknownBackend

GROUP = "turnwise.sandbox_backends"
AUTO = "auto"
PREFERRED, FALLBACK = "docker", "local"
"""The backends of ``auto``."""
SHIPPED = {
    "docker": "turnwise.sandbox.backends.docker:DockerBackend",
    "local": "turnwise.sandbox.backends.bubblewrap:BubblewrapBackend",
}
"""The entry points of ``pyproject.toml``, for a source tree whose installation is older."""


@functools.cache
def registered() -> dict[str, str]:
    """Return the import path of each registered backend, by name, without importing it."""
    found = {entry_point.name: entry_point.value for entry_point in entry_points(group=GROUP)}
    return dict(sorted((found | SHIPPED).items()))


def backend_class(name: str) -> BackendClass:
    """Return the class of a backend.

    Raises:
        UnknownBackend: no backend has this name.
        SandboxError: its package cannot be imported.
    """
    known = registered()
    if name not in known:
        raise UnknownBackend(f"no sandbox backend is called `{name}`{suggestion(name, list(known))}")
    module, _, attribute = known[name].partition(":")
    try:
        return cast(BackendClass, getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise SandboxError(f"the sandbox backend `{name}` is registered as `{known[name]}`: {error}") from error


def all_prerequisites() -> list[Prerequisite]:
    """Return capabilities and prerequisites of every registered backend.

    A backend that cannot be imported lacks its package.
    """
    found = []
    for name in registered():
        try:
            kind = backend_class(name)
            found.append(Prerequisite(name, "capabilities", True, kind.capabilities.describe(), required=False))
            found += kind.prerequisites()
        except SandboxError as error:
            found.append(Prerequisite(name, "package", False, str(error)))
    return found


def check_options(name: str, options: dict[str, Any]) -> None:
    """Check a backend and its options; with ``auto``, one of its backends must have them all. Raises SandboxError."""
    if name != AUTO:
        _parse_options(name, options)
    elif options:
        try:
            _parse_options(PREFERRED, options)
        except UnknownBackend as unknown:
            try:
                _parse_options(FALLBACK, options)
            except UnknownBackend:
                raise unknown from None


def make_backend(
    name: str, run: str = "", *, allow_untrusted: bool = False, options: dict[str, Any] | None = None
) -> Backend:
    """Return the backend of a name; ``auto``: Docker if an engine answers, else local.

    ``run`` is the owner's run in labels. Options that the chosen backend does not have are refused.

    Raises:
        NoEngine: the backend is not available on this machine; the text names the package to install.
        UnknownBackend: the name or an option is unknown.
    """
    if name != AUTO:
        parsed = _parse_options(name, options or {})
        return backend_class(name).create(run, parsed, allow_untrusted=allow_untrusted)
    try:
        return make_backend(PREFERRED, run, allow_untrusted=allow_untrusted, options=options)
    except NoEngine as no_docker:
        from .bubblewrap import BubblewrapBackend

        _parse_options(FALLBACK, options or {})
        try:
            return BubblewrapBackend(allow_untrusted=allow_untrusted, docker_error=str(no_docker))
        except NoEngine as no_bubblewrap:
            raise NoEngine(f"{no_docker}; {no_bubblewrap}") from no_bubblewrap


def _parse_options(name: str, options: dict[str, Any]) -> BaseModel:
    kind = backend_class(name).Options
    try:
        return kind.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        known = suggestion(key, list(kind.model_fields)) if first["type"] == "extra_forbidden" else ""
        raise UnknownBackend(f"option `{key}` of the sandbox backend `{name}`: {reason(first)}{known}") from None
