"""Components by name: the name in the configuration is the file name in the slot's package.

``component_names`` lists the files without importing them, so that a misspelled name can be answered with the nearest
one at no cost. ``component_class`` imports the chosen file only. A name with a colon, ``"my_pkg.credit:MyAdvantage"``,
imports a class from outside turnwise.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from ...base.process.user_code import imported
from ...errors import TurnwiseError, suggestion

T = TypeVar("T")


class UnknownComponent(TurnwiseError):
    """No usable component of that name exists; the message names the nearest, or the reason."""


def component_names(base: type) -> list[str]:
    """Return the names of a slot's components, sorted, without importing them; ``base`` is the slot's base class."""
    folder = Path(str(sys.modules[base.__module__].__file__)).parent
    return sorted(
        found.name for found in iter_modules([str(folder)]) if found.name != "base" and not found.name.startswith("_")
    )


def component_class(base: type[T], name: str) -> type[T]:
    """Return the class that ``name`` selects for the slot of ``base``.

    Raises:
        UnknownComponent: the name is unknown, cannot be imported, or is not a subclass of ``base``.
    """
    slot = str(getattr(base, "slot", ""))
    if ":" in name:
        return _outside(base, name)
    known = component_names(base)
    if not name:
        raise UnknownComponent(f"missing: `{slot}` needs a name (known: {', '.join(known)})")
    if name not in known:
        raise UnknownComponent(f"`{slot}` has no component {name!r}{suggestion(name, known)}")
    return _defined_in(import_module(f"{_package(base)}.{name}"), base)


def component_name(cls: type) -> str:
    """Return the name that selects ``cls`` in the configuration."""
    package, _, module = cls.__module__.rpartition(".")
    if package.startswith(f"{__package__}."):
        return module
    return f"{cls.__module__}:{cls.__qualname__}"


def _package(base: type) -> str:
    return base.__module__.rpartition(".")[0]


def _defined_in(module: ModuleType, base: type[T]) -> type[T]:
    """Return the one concrete subclass of ``base`` that ``module`` defines."""
    found = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and not inspect.isabstract(member)
        and member.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise UnknownComponent(
            f"`{module.__name__}` defines {len(found)} subclasses of `{base.__name__}`: a component's file defines one"
        )
    return found[0]


def _outside(base: type[T], name: str) -> type[T]:
    try:
        found = imported(name)
    except ValueError as error:
        raise UnknownComponent(str(error)) from error
    if not inspect.isclass(found) or not issubclass(found, base) or inspect.isabstract(found):
        raise UnknownComponent(
            f"{name!r} is not a `{base.__name__}`: subclass `{base.__module__}.{base.__name__}` and implement its"
            " abstract methods"
        )
    return found
