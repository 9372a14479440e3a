"""The Docker containers of a run, and numbers from its store."""

import time
from pathlib import Path
from typing import Any

import docker
from sqlalchemy import text
from turnwise.sandbox.backends.ownership import LABEL, RUN
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import url

GONE_SECONDS = 60


def containers(run: str) -> set[str]:
    """The containers of a run that there are, running or not."""
    client = docker.APIClient()
    try:
        found: list[dict[str, Any]] = client.containers(all=True, filters={"label": [f"{LABEL}=1", f"{RUN}={run}"]})
        return {one["Id"] for one in found}
    finally:
        client.close()


def until_gone(doomed: set[str], run: str) -> float:
    """Wait until these containers of a run are gone; return the seconds that it took."""
    began = time.monotonic()
    while doomed & containers(run):
        assert time.monotonic() - began < GONE_SECONDS, f"{len(doomed & containers(run))} containers are still there"
        time.sleep(0.5)
    return time.monotonic() - began


def in_database(folder: Path, query: str) -> int:
    """The number that a query returns from the store of the run in ``folder``."""
    with open_database(url(folder)).read() as conn:
        return int(conn.execute(text(query)).scalar_one())
