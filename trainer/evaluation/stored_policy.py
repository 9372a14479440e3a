"""The policy ``RUN`` or ``RUN@UPDATE``: a checkpoint of a run in the store, in place of its folder."""

import re

from ...process.start import absolute
from ...store import queries
from ...store.database import Database
from ...store.errors import NotFound
from ...store.queries.lineage import refuse_gone
from ...store.run_lock import run_folder

RUN_AT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(@.*)?")
BUILT_IN = frozenset({"random", "oracle", "human"})


def checkpoint_or_name(database: Database, policy: str) -> str:
    """Return the folder of the checkpoint that ``policy`` names, or ``policy`` itself if it names no run of the store.

    A built-in policy and an existing folder take precedence over a run. The folder of a run of this store
    (``runs/NAME``) stands for the run.

    Raises:
        NotFound: the run has no checkpoint, or none of that update, or the folder of the checkpoint is gone.
    """
    name = _run_of(database, policy)
    if name is None:
        return policy
    with database.read() as conn:
        try:
            queries.find_run(conn, name.partition("@")[0])
        except NotFound:
            if "@" in name:
                raise
            return policy
        version = queries.find_checkpoint(conn, name)
        refuse_gone(conn, version)
    return version.checkpoint


def _run_of(database: Database, policy: str) -> str | None:
    """Return ``RUN`` or ``RUN@UPDATE`` if a policy may name a run, else None."""
    if policy in BUILT_IN or "://" in policy:
        return None
    folder = absolute(policy)
    if folder.is_dir():
        is_run = (folder / "checkpoints").is_dir() and folder.resolve() == run_folder(database, folder.name)
        return folder.name if is_run else None
    return policy if RUN_AT.fullmatch(policy) else None
