"""The store without one that is named: `TURNWISE_STORE`, the project file ``turnwise.toml``, or a file in `runs`."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import TurnwiseError, reason, suggestion
from ..user_files import UnreadableFile, read_toml

PROJECT_FILE = "turnwise.toml"
"""Names the store of all commands and programs in its folder and below it."""
DEFAULT_STORE = "sqlite:///runs/turnwise.db"
"""The store without `TURNWISE_STORE` and a project file."""
FILE_URL = "sqlite:///"
"""A database file by a path relative to the current folder; with one more slash, by an absolute path."""


class Project(BaseModel):
    """The keys of the project file."""

    model_config = ConfigDict(extra="forbid")

    store: str
    """The URL of the store; the path of an SQLite file is relative to the folder of the project file."""


class InvalidProject(TurnwiseError):
    """The project file cannot be read, or has a wrong key."""


def default_store() -> str:
    """Return the URL of the store that a command or a program uses if it names none.

    Raises:
        InvalidProject: the project file cannot be read, or has a wrong key.
    """
    return os.environ.get("TURNWISE_STORE") or project_store() or DEFAULT_STORE


def project_store() -> str | None:
    """Return the store that the nearest project file names, from the current folder upwards; None without one.

    Raises:
        InvalidProject: the file cannot be read, or has a wrong key.
    """
    here = Path.cwd()
    file = next((one for folder in (here, *here.parents) if (one := folder / PROJECT_FILE).is_file()), None)
    return None if file is None else _store_in(file)


def _store_in(file: Path) -> str:
    try:
        store = Project.model_validate(read_toml(file)).store
    except UnreadableFile as error:
        raise InvalidProject(str(error)) from error
    except ValidationError as error:
        first = error.errors()[-1]  # an unknown key comes after a missing one
        key = ".".join(map(str, first["loc"]))
        known = suggestion(key, list(Project.model_fields)) if first["type"] == "extra_forbidden" else ""
        raise InvalidProject(f"`{file}`: `{key}`: {reason(first)}{known}") from error
    if store.startswith(FILE_URL) and not store.startswith(f"{FILE_URL}/"):
        return f"{FILE_URL}{file.parent / store.removeprefix(FILE_URL)}"
    return store
