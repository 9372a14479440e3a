"""A run of ``small.toml`` as its own process, ways to kill its parts, and what must hold afterwards, by SQL."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import psutil
from sqlalchemy import Connection, text
from turnwise.sandbox.backends.ownership import LABEL, RUN
from turnwise.store import queries
from turnwise.store.content.rows import sampled_of
from turnwise.store.content.turn_rows import messages_of
from turnwise.store.database import open_database
from turnwise.store.errors import StoreError
from turnwise.store.maintenance.integrity import check_store
from turnwise.tests.store.making import double_consumed

CONFIG = Path(__file__).with_name("small.toml")
ADDRESS = "store.txt"
"""The file in the folder of a run that names its store."""
CHANGES = "changes.txt"
"""The file in the folder of a run with changes of its configuration, one in each line."""
GONE_SECONDS = 60
PROGRAM = str(Path(sys.executable).with_name("turnwise"))
TABLES = ("run", "policy_version", "task", "rollout_group", "trajectory", "step", "partial_turn", "blob", "train_batch")


@dataclass
class Launch:
    """One process of the run, started in ``folder``."""

    folder: Path
    process: subprocess.Popen[str]

    @classmethod
    def of(cls, folder: Path, *overrides: str, fault: str = "", config: Path = CONFIG) -> "Launch":
        folder.mkdir(parents=True, exist_ok=True)
        command = [PROGRAM, "train", str(config), "--json", "--store", url(folder)]
        for one in overrides:
            command += ["--set", one]
        environment = {**os.environ, "TURNWISE_FAILPOINT": fault}
        with (folder / "log.txt").open("a") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, text=True, env=environment)
            return cls(folder, process)

    def wait(self, seconds: float) -> int:
        """The exit status; a run that takes longer than ``seconds`` is a failure."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds} s:\n{self.log()}") from None

    def kill(self) -> None:
        """SIGKILL to the driver, by its id."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def log(self) -> str:
        """The end of what all launches in this folder printed."""
        return (self.folder / "log.txt").read_text()[-6000:]

    def part(self, name: str) -> psutil.Process:
        """The process of a Ray actor of this run, by the class it runs."""
        found = [one for one in descendants(self.process.pid) if name in " ".join(_cmdline(one))]
        assert found, f"no {name} among the processes of the run"
        return found[0]

    def until_update(self, update: int, seconds: float) -> None:
        """Wait until the store has recorded an update."""
        deadline = time.monotonic() + seconds
        while updates(self.folder) < update:
            assert self.process.poll() is None, f"ended before update {update}:\n{self.log()}"
            assert time.monotonic() < deadline, f"no update {update} within {seconds} s:\n{self.log()}"
            time.sleep(0.25)


def command(folder: Path, *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    """Another command on the run's store, to its end; a module of Python if the first argument is ``-m``."""
    program = sys.executable if arguments[0] == "-m" else PROGRAM
    return subprocess.run(
        [program, *arguments, "--store", url(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TURNWISE_FAILPOINT": fault},
    )


def use_store(folder: Path, address: str) -> None:
    """Give the runs of this folder the store at ``address``, instead of an SQLite file in the folder."""
    (folder / ADDRESS).write_text(address)


def use_changes(folder: Path, *changes: str) -> None:
    """Give each command that trains in this folder the same changes, so that it resumes the same run."""
    (folder / CHANGES).write_text("\n".join(changes))


def changes_of(folder: Path) -> list[str]:
    """The changes of the runs in this folder."""
    file = folder / CHANGES
    return file.read_text().splitlines() if file.exists() else []


def url(folder: Path) -> str:
    """The store of the run in this folder."""
    address = folder / ADDRESS
    return address.read_text() if address.exists() else f"sqlite:///{folder}/turnwise.db"


@contextmanager
def reading(folder: Path) -> Iterator[Connection]:
    """A connection to the store of the run in this folder. Raises StoreError while there is none."""
    database = open_database(url(folder))
    try:
        with database.read() as conn:
            yield conn
    finally:
        database.close()


def has_tables(folder: Path) -> bool:
    """Whether the store of the run in this folder was made and answers."""
    try:
        with reading(folder):
            return True
    except StoreError:
        return False


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def descendants(pid: int) -> list[psutil.Process]:
    """The processes below one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def survivors(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those still alive after at most ``seconds``."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def updates(folder: Path) -> int:
    """Updates of the surviving history so far; -1 before there is a store."""
    try:
        with reading(folder) as conn:
            found = conn.execute(text("SELECT max(update_no) FROM policy_version WHERE NOT abandoned")).scalar()
    except Exception:
        return -1
    return -1 if found is None else int(found)


def sizes(folder: Path) -> dict[str, int]:
    """Rows of every table."""
    with reading(folder) as conn:
        return {table: conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in TABLES}  # noqa: S608


def abandoned_batches(folder: Path) -> int:
    """Updates that resumes rolled back."""
    with reading(folder) as conn:
        return int(conn.execute(text("SELECT count(*) FROM train_batch WHERE abandoned")).scalar_one())


def check_staleness(conn: Connection, run: str, bound: int = 1) -> None:
    """Check the staleness that each batch recorded against the versions that the messages carry.

    The turns that a branch shares with its parent are trained on as the parent's.
    """
    updates_of = {version.id: version.update for version in queries.versions(conn, run).values()}
    rows = conn.execute(
        text(
            "SELECT t.id, i.max_staleness, b.update_no, s.idx, s.messages, s.messages_blob FROM batch_item i"
            " JOIN run r ON r.no = i.run_no"
            " JOIN train_batch b ON b.run_no = i.run_no AND b.version_id = i.version_id"
            " JOIN step s ON s.trajectory_no = i.trajectory_no"
            " JOIN trajectory t ON t.no = i.trajectory_no"
            " WHERE r.id = :run AND NOT i.abandoned AND (t.branched_at IS NULL OR s.idx >= t.branched_at)"
        ),
        {"run": run},
    ).mappings()
    ages: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        _, versions = sampled_of(messages_of(row, {}))
        found = ages.setdefault((row["id"], row["max_staleness"]), [])
        found += [age for version in versions if (age := row["update_no"] - 1 - updates_of[version]) <= bound]
    assert ages
    for (trajectory, recorded), found in ages.items():
        assert 0 <= recorded == max(found), (trajectory, recorded, found)


def check_scored(conn: Connection, run: str) -> None:
    """Check that every group of surviving history that was played to its end was scored."""
    unscored = text(
        "SELECT g.id, g.state, g.reason FROM rollout_group g JOIN run r ON r.no = g.run_no"
        " WHERE r.id = :run AND purpose = 'train' AND NOT abandoned AND score_no IS NULL AND state <> 'failed'"
    )
    assert conn.execute(unscored, {"run": run}).all() == []


def check_finished(folder: Path, run: str = "small", updates_wanted: int = 8) -> None:
    """Check that a run has finished with so many updates, and its history."""
    with reading(folder) as conn:
        assert queries.find_run(conn, run).status == "finished"
    assert check_history(folder, run) == updates_wanted


def check_history(folder: Path, run: str = "small") -> int:
    """Check the store of an ended run and the invariants of its surviving history; return its number of updates."""
    database = open_database(url(folder))
    assert list(check_store(database)) == []
    database.close()
    with reading(folder) as conn:
        assert double_consumed(conn, run) == []
        numbers = text(
            "SELECT update_no FROM train_batch b JOIN run r ON r.no = b.run_no"
            " WHERE r.id = :run AND NOT b.abandoned ORDER BY update_no"
        )
        made = conn.execute(numbers, {"run": run}).scalars().all()
        assert list(made) == list(range(1, len(made) + 1))
        total = queries.accounting(conn, run)
        played = text(
            "SELECT count(*) FROM trajectory t JOIN run r ON r.no = t.run_no WHERE r.id = :run AND purpose = 'train'"
        )
        assert conn.execute(played, {"run": run}).scalar_one() == total["submitted"]
        assert total["submitted"] == sum(total[part] for part in ("accepted", "filtered", "failed"))
        used = text(
            "SELECT count(DISTINCT trajectory_no) FROM batch_item i JOIN run r ON r.no = i.run_no"
            " WHERE r.id = :run AND NOT i.abandoned"
        )
        assert 0 < conn.execute(used, {"run": run}).scalar_one() <= total["accepted"]
        twice = text(
            "SELECT group_no FROM batch_group WHERE NOT abandoned AND fresh GROUP BY group_no HAVING count(*) > 1"
        )
        assert conn.execute(twice).all() == []
        check_scored(conn, run)
        check_staleness(conn, run)
        abandoned = text(
            "SELECT count(*) FROM batch_item JOIN trajectory ON trajectory.no = trajectory_no"
            " WHERE NOT batch_item.abandoned AND trajectory.abandoned"
        )
        assert conn.execute(abandoned).scalar_one() == 0
        loose = text("SELECT count(*) FROM trajectory WHERE status = 'running'")
        assert conn.execute(loose).scalar_one() == 0
    return len(made)


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
