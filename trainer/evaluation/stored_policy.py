"""The policy ``RUN`` or ``RUN@UPDATE``: a checkpoint of a run in the store, in place of its folder."""

import re
from dataclasses import replace

from ...base.process.start import absolute
from ...records import PolicyVersion
from ...store import queries
from ...store.database import Database
from ...store.errors import NotFound
from ...store.project import run_folder
from ...store.queries.lineage import refuse_gone
from ...store.queries.nearest import nearest
from ...store.schema import run as run_table
from .policy import Policy, is_model

RUN_AT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(@.*)?")
BUILT_IN = frozenset({"random", "oracle", "human"})


def named_policy(database: Database, name: str, seed: int, api_key_env: str, known: str = "random, oracle") -> Policy:
    """Return a policy by its name, as ``Policy.named``; ``RUN`` and ``RUN@UPDATE`` are shown as ``RUN@UPDATE``.

    Raises:
        NotFound: as ``stored_checkpoint``.
        TurnwiseError: as ``Policy.named``; the message names the nearest run or policy.
    """
    version = stored_checkpoint(database, name)
    if version is not None:
        of_run = Policy.named(version.checkpoint, seed, api_key_env)
        return replace(of_run, shown=f"{version.run}@{version.update}")
    with database.read() as conn:
        run = nearest(conn, run_table, name) if RUN_AT.fullmatch(name) else ""
    return Policy.named(name, seed, api_key_env, known, run)


def stored_checkpoint(database: Database, policy: str) -> PolicyVersion | None:
    """Return the version whose checkpoint ``policy`` names; None if it names no run of the store.

    A built-in policy and the folder of a model take precedence over a run. The folder of a run of this store
    (``runs/NAME``) stands for the run.

    Raises:
        NotFound: the run has no checkpoint, or none of that update, or the folder of the checkpoint is gone.
    """
    name = _run_of(database, policy)
    if name is None:
        return None
    with database.read() as conn:
        try:
            queries.find_run(conn, name.partition("@")[0])
        except NotFound:
            if "@" in name:
                raise
            return None
        version = queries.find_checkpoint(conn, name)
        refuse_gone(conn, version)
    return version


def _run_of(database: Database, policy: str) -> str | None:
    """Return ``RUN`` or ``RUN@UPDATE`` if a policy may name a run, else None."""
    if policy in BUILT_IN or "://" in policy:
        return None
    folder = absolute(policy)
    if (folder / "checkpoints").is_dir() and folder.resolve() == run_folder(database, folder.name):
        return folder.name
    if is_model(policy):
        return None
    return policy if RUN_AT.fullmatch(policy) else None
