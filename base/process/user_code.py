"""Import what a name ``pkg.module:Name`` selects: an environment, a component, a function or a tracker.

A Python program imports the module of every name that it uses. The command line, and the workers of its runs, import
only modules that a person named: in an option, or in a configuration file of the command line. A name that was read
from data (a store, an imported file, a stored configuration) imports nothing.
"""

import re
from collections.abc import Collection
from importlib import import_module
from shlex import quote
from types import ModuleType
from typing import Any

_NO_NAME = re.compile(r"[^\w.]")
_admitted: frozenset[str] | None = None


class NotAdmitted(ImportError):
    """Only data names the module."""


def admitted() -> frozenset[str] | None:
    """Return the modules that a name may import; None for every module."""
    return _admitted


def admit_only(modules: Collection[str] | None) -> None:
    """Import no other modules by name than ``modules`` and those that ``admit`` adds; None imports every module."""
    global _admitted
    _admitted = None if modules is None else frozenset(modules)


def admit(given: object) -> None:
    """Admit the module of each name in a value that a person gave, such as a configuration or the text of an option."""
    if _admitted is not None:
        before_colons = str(given).split(":")[:-1]
        admit_only(_admitted.union(_NO_NAME.split(part)[-1] for part in before_colons))


def import_named(module: str) -> ModuleType:
    """Return a module, imported if a name may import it. Raises NotAdmitted, or whatever the module raises."""
    if _admitted is not None and module not in _admitted:
        raise NotAdmitted(not_imported(module))
    return import_module(module)


def not_imported(module: str) -> str:
    """Return why a name in data does not import its module, and what to do; the module is empty if it is not known."""
    return (
        "only stored data names it, and a name in data imports nothing; if you trust its module, add "
        f"`--import {quote(module or 'MODULE')}` to the command"
    )


def imported(name: str) -> Any:
    """Return what ``name`` (``pkg.module:attribute``) names. Raises ValueError: it cannot be imported."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_named(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        hint = (
            "; modules are found in installed packages and the folders of PYTHONPATH: for a file in the working "
            "directory, run `PYTHONPATH=. turnwise …`"
        )
        raise ValueError(f"`{name}` cannot be imported: {error}{hint if missing else ''}") from error
