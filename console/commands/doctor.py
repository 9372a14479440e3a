"""``turnwise doctor``: every real part, found or missing, its version, and how to get it."""

import typer

from ..options import Json
from ..terminal.output import console, print_json, print_table
from .prerequisites import Part, look


def _detail(part: Part) -> str:
    if part.found:
        return part.version
    known = f"{part.version}; " if part.version else ""
    return f"{known}for {part.use}: {part.get}"


def _state(part: Part) -> str:
    return "found" if part.found else "missing, needed" if part.needed else "missing"


def doctor(as_json: Json = False) -> None:
    """Look at every real part that turnwise can use; exit 1 if one that training needs is missing."""
    parts = look()
    if as_json:
        print_json(parts)
    else:
        rows = [(part.name, _state(part), _detail(part)) for part in parts]
        print_table(("part", "is", "version, or how to get it"), rows, empty="no parts")
    lacking = [part.name for part in parts if part.needed and not part.found]
    if not as_json:
        console().print(f"training needs {', '.join(lacking)}" if lacking else "training needs nothing that is missing")
    if lacking:
        raise typer.Exit(1)
