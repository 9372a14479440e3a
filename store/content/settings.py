"""The rows of ``store_setting``: facts about the store as a whole, each written by one part of the program."""

from sqlalchemy import Connection, select

from ..schema import insert_once, store_setting
from .seals import change, sealed

STORE_ID, BLOB_ROOT, RUNS, SEARCH_INDEX = "store_id", "blob_root", "runs", "search_index"
NAMES = (STORE_ID, BLOB_ROOT, RUNS, SEARCH_INDEX)
"""``store_id`` and ``runs``, the number of runs, are made with the store."""


def setting(conn: Connection, name: str, *, lock: bool = False) -> str | None:
    """Return the value of a setting; None if the store has none. With ``lock``, no other writer changes it."""
    which = select(store_setting.c.value).where(store_setting.c.name == name)
    value: str | None = conn.execute(which.with_for_update() if lock else which).scalar_one_or_none()
    return value


def add_setting(conn: Connection, name: str, value: str) -> bool:
    """Add a setting, and return whether it was missing; an existing one stays as it is."""
    row = sealed(store_setting, {"name": name, "value": value})
    return bool(conn.execute(insert_once(conn.dialect.name, store_setting), row).rowcount)


def change_setting(conn: Connection, name: str, value: str) -> None:
    """Change the value of a setting that the store has."""
    change(conn, store_setting, store_setting.c.name == name, value=value)


def count_runs(conn: Connection) -> None:
    """Add one to the number of runs."""
    change_setting(conn, RUNS, str(int(setting(conn, RUNS, lock=True) or 0) + 1))
