"""The store without one that is named: `TURNWISE_STORE`, the project file ``turnwise.toml``, or a file in `runs`."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from ..base.process.start import absolute
from ..base.user_files import UnreadableFile, read_toml
from ..errors import TurnwiseError, reason, suggestion
from .errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from .database import Database

LOG = logging.getLogger(__name__)
PROJECT_FILE = "turnwise.toml"
"""Names the store of all commands and programs in its folder and below it."""
DEFAULT_STORE = "sqlite:///runs/turnwise.db"
"""The store without `TURNWISE_STORE` and a project file."""
RUNS_VARIABLE = "TURNWISE_RUNS"
"""Names the folder of the folders of runs, as ``--runs`` does."""


class Project(BaseModel):
    """The keys of the project file."""

    model_config = ConfigDict(extra="forbid")

    store: str
    """The URL of the store; its paths are relative to the folder of the project file."""


class InvalidProject(TurnwiseError):
    """The project file cannot be read, or has a wrong key."""


def default_store() -> str:
    """Return the URL of the store that a command or a program uses if it names none.

    Raises:
        InvalidProject: the project file cannot be read, or has a wrong key.
    """
    return os.environ.get("TURNWISE_STORE") or project_store() or DEFAULT_STORE


def run_folder(database: "Database | Connection", name: str) -> Path:
    """Return the folder of a run's files: in that of ``--runs``, else of an SQLite store, else in ``runs/``.

    A store from elsewhere may name a run as it likes: its folder is never outside.
    """
    part = name.replace("/", "%2F") if name.strip(".") else name.replace(".", "%2E")
    path = database.engine.url.database if database.engine.dialect.name == "sqlite" else None
    runs = os.environ.get(RUNS_VARIABLE) or (Path(path).parent if path else "runs")
    return absolute(runs).resolve() / part


def project_store(note: Callable[[str], None] = LOG.warning) -> str | None:
    """Return the store that the nearest project file names, from the current folder upwards; None without one.

    A file of another user than this one and root is ignored: it would lead the episodes of everyone who works below
    its folder, such as ``/tmp``, into a store of that user.

    Args:
        note: receives which file is ignored, and why.

    Raises:
        InvalidProject: the file cannot be read, or has a wrong key.
    """
    for file in _project_files():
        if _is_trusted(file):
            return _store_in(file)
        note(
            f"`{file}` is ignored, since it belongs to another user: name the store by `--store` or `TURNWISE_STORE`, "
            "or make the file yours"
        )
    return None


def _project_files() -> Iterator[Path]:
    here = absolute("")
    files = (folder / PROJECT_FILE for folder in (here, *here.parents))
    return (one for one in files if os.path.isfile(one))  # noqa: PTH113 - no error where a folder denies access


def _is_trusted(file: Path) -> bool:
    """Return whether a file, and the link that may lead to it, belong to this user or to root."""
    return {file.stat().st_uid, file.lstat().st_uid} <= {os.geteuid(), 0}


def _store_in(file: Path) -> str:
    from .database import located  # with SQLAlchemy, which a command without a store does not import

    try:
        return located(Project.model_validate(read_toml(file)).store, file.parent)
    except UnreadableFile as error:
        raise InvalidProject(str(error)) from error
    except ValidationError as error:
        first = error.errors()[-1]  # an unknown key comes after a missing one
        key = ".".join(map(str, first["loc"]))
        known = suggestion(key, list(Project.model_fields)) if first["type"] == "extra_forbidden" else ""
        raise InvalidProject(f"`{file}`: `{key}`: {reason(first)}{known}") from error
    except StoreError as error:
        raise InvalidProject(f"`{file}`: `store`: {error}") from error
