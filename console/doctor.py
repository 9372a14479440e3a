"""``turnwise doctor``: every real part, found or missing, its version, and how to get it."""

import typer

from .options import Json
from .output import print_json, print_table
from .parts import Part, look


def _detail(part: Part) -> str:
    if part.found:
        return part.version
    known = f"{part.version}; " if part.version else ""
    return f"{known}for {part.use}: {part.get}"


def doctor(as_json: Json = False) -> None:
    """Look at every real part that turnwise can use; exit 1 if one that training needs is missing."""
    parts = look()
    if as_json:
        print_json(parts)
    else:
        rows = [(part.name, "found" if part.found else "missing", _detail(part)) for part in parts]
        print_table(("part", "is", "version, or how to get it"), rows, empty="no parts")
    if any(part.needed and not part.found for part in parts):
        raise typer.Exit(1)
