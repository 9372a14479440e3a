"""Measure the store on SQLite and PostgreSQL: its writes, the size of a step, and the reads of a large store.

A step is one row of ``step``, with two messages that have 24 tokens together. The parts, each on both databases:

1. ``write_over_raw``: steps per second through the writer, with the starts and ends of episodes, over those of a bulk
   insert of the same rows by the database's driver, as ``parts/store_writes.py`` describes: the median of ``--rounds``
   rounds of ``--turns`` steps. ``bytes_per_step``: size of the database after one round.
2. ``list_p95_ms``: 95th percentile of the slowest kind of list page (every sort, every filter), ``open_ms``: median of
   loading a trajectory, both in a store of ``--steps`` steps. ``resume_s``: a resume of a run with 12,000 consumed
   groups.
3. PostgreSQL only: the steps per second of 8 writing processes over those of one (``writers_over_one``), the cores of
   the machine that they and the server keep busy (``cores_busy``), and the 99th percentile of the learner's lease
   meanwhile (``lease_p99_ms``).

Prints one JSON line last.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from turnwise.benchmarks.parts.store_writes import create, write, write_over_raw
from turnwise.records import GroupState
from turnwise.store import operations, queries
from turnwise.store.database import Database, open_database
from turnwise.store.queries.lists import TRAJECTORIES
from turnwise.tests.store.postgres import Server

CONSUMED_GROUPS = 12_000
WRITERS = 8


def size(conn: Connection) -> int:
    """Return the bytes of the database."""
    if conn.dialect.name == "sqlite":
        pages, page_bytes = (conn.exec_driver_sql(f"PRAGMA page_{name}").scalar_one() for name in ("count", "size"))
        return int(pages * page_bytes)
    tables = "FROM pg_class WHERE relkind = 'r' AND relname !~ '^(pg_|sql_)'"
    return int(conn.execute(text(f"SELECT sum(pg_total_relation_size(oid)) {tables}")).scalar_one())


def grow(database: Database, steps: int) -> None:
    """Copy the stored trajectories, with their groups and steps, up to about ``steps`` steps."""
    with database.transaction() as tx:
        count = tx.conn.execute(text("SELECT count(*) FROM step")).scalar_one()
        largest = [text(f"SELECT max(no) FROM {name}") for name in ("rollout_group", "trajectory")]  # noqa: S608
        groups, heads = (tx.conn.execute(query).scalar_one() for query in largest)
        for copy in range(1, steps // count):
            shift = {"no": copy * groups, "group_no": copy * groups}
            _copy(tx.conn, "rollout_group", {**shift, "id": f"'c{copy}-' || id"}, groups)
            moved = {"no": copy * heads, "group_no": copy * groups, "id": f"'c{copy}-' || id", "uid": _uid(tx.conn)}
            moved["reward"] = f"reward + {copy % 13}"
            if copy % 97 == 0:
                moved["status"] = "'env_error'"
            _copy(tx.conn, "trajectory", moved, heads)
            _copy(tx.conn, "step", {"trajectory_no": copy * heads}, heads)
    with database.engine.connect() as conn:
        conn.exec_driver_sql("ANALYZE")
        conn.commit()


def _uid(conn: Connection) -> str:
    return "lower(hex(randomblob(16)))" if conn.dialect.name == "sqlite" else "gen_random_uuid()"


def _copy(conn: Connection, table: str, changes: dict[str, Any], last: int) -> None:
    """Insert the first rows of a table again; a change is an expression, or a number to add to the column."""
    columns = list(conn.exec_driver_sql(f"SELECT * FROM {table} LIMIT 0").keys())  # noqa: S608
    key = "no" if "no" in columns else "trajectory_no"
    if table == "rollout_group":
        changes = {name: change for name, change in changes.items() if name != "group_no"} | {"score_no": "NULL"}
    values = [
        f"{name} + {changes[name]}" if isinstance(changes.get(name), int) else str(changes.get(name, name))
        for name in columns
    ]
    listed = ", ".join(columns)
    overriding = "OVERRIDING SYSTEM VALUE " if conn.dialect.name == "postgresql" and key == "no" else ""
    conn.exec_driver_sql(
        f"INSERT INTO {table} ({listed}) {overriding}SELECT {', '.join(values)} FROM {table} WHERE {key} <= {last}"  # noqa: S608
    )


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds of one call."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def read(database: Database) -> dict[str, float]:
    """Return the milliseconds of list pages and of opening a trajectory."""
    filters: list[dict[str, Any]] = [
        {},
        {"run": "r"},
        {"run": "r", "status": "env_error"},
        {"status": "env_error"},
        {"env": "turnwise/TextSite-v0"},
        {"policy": "oracle"},
        {"source": "expert"},
        {"success": True},
        {"purpose": "eval"},
        {"run": "r", "abandoned": True},
        {"run": "r", "group": "g000001-0"},
    ]
    kinds: dict[str, float] = {}
    for sort in TRAJECTORIES.sorts:
        for chosen in filters:
            if sort != "created_at" and "run" not in chosen:
                continue
            times, after = [], None
            for _ in range(20):
                page: list[Any] = []

                def load(after: str | None = after, page: list[Any] = page) -> None:
                    with database.read() as conn:
                        page += queries.list_trajectories(conn, sort=sort, limit=50, after=after, **chosen)  # noqa: B023

                times.append(timed(load))
                after = page[-1].id if page else None
            kinds[f"{sort} {chosen}"] = sorted(times)[-2]
    slowest = max(kinds, key=lambda kind: kinds[kind])
    print(f"slowest page: {slowest}: {kinds[slowest]:.1f} ms", flush=True)
    opened = [timed(lambda n=n: queries.load_trajectory(database, f"g{n:06d}-0-0")) for n in range(3)]
    return {"list_p95_ms": round(kinds[slowest], 1), "open_ms": round(statistics.median(opened), 1)}


def resume(database: Database) -> float:
    """Return the seconds of a resume of a run with ``CONSUMED_GROUPS`` consumed groups, at its newest checkpoint."""
    with database.transaction() as tx:
        run_no = operations.runs.lock_run(tx, "r").no
        last = CONSUMED_GROUPS // 8
        for start in range(0, last, 500):
            numbers = range(start + 1, min(start + 500, last) + 1)
            key = {"run": run_no, "at": tx.now}
            tx.conn.execute(text(VERSION), [dict(key, no=n, parent=n - 1) for n in numbers])
            tx.conn.execute(text(BATCH), [dict(key, no=n, digest=b"\0" * 32) for n in numbers])
        groups = tx.conn.execute(text("SELECT no FROM rollout_group ORDER BY no LIMIT :n"), {"n": CONSUMED_GROUPS})
        rows = [{"run": run_no, "no": 1 + n // 8, "group": no, "idx": n % 8} for n, no in enumerate(groups.scalars())]
        tx.conn.execute(text(CONSUMED), rows)
        tx.conn.execute(text("UPDATE rollout_group SET state = 'consumed' WHERE no = :group"), rows)
    start_s = time.perf_counter()
    with database.transaction() as tx:
        counts = operations.rewind(tx, run="r", version=last - 1)
    assert counts["versions_abandoned"] == 1, counts
    return time.perf_counter() - start_s


VERSION = (
    "INSERT INTO policy_version (run_no, id, parent_id, update_no, created_at) VALUES (:run, :no, :parent, :no, :at)"
)
BATCH = (
    "INSERT INTO train_batch (run_no, version_id, update_no, epoch, metrics, digest, created_at)"
    " VALUES (:run, :no, :no, 1, '{}', :digest, :at)"
)
CONSUMED = "INSERT INTO batch_group (run_no, version_id, group_no, idx, fresh) VALUES (:run, :no, :group, :idx, true)"


def concurrent(url: str, turns: int) -> dict[str, float]:
    """Return the rate of 8 writing processes over that of one, and the learner's wait for a lease meanwhile."""
    rates = {}
    busy = 0.0
    waits: list[float] = []
    database = open_database(url)
    for count in (1, WRITERS):
        command = [sys.executable, __file__, "--writer", url, "--turns", str(turns)]
        start = time.perf_counter()
        before = busy_s()
        children = [subprocess.Popen([*command, "--prefix", f"w{count}-{n}-"]) for n in range(count)]
        while any(child.poll() is None for child in children):
            waits += [timed(lambda: _lease(database))] if count > 1 else []
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        rates[count] = count * turns / seconds
        busy = (busy_s() - before) / seconds
        print(f"{count} writers: {rates[count]:,.0f} steps per second, {busy:.2f} of {os.cpu_count()} cores busy")
    database.close()
    return {
        "writers_over_one": round(rates[WRITERS] / rates[1], 2),
        "cores_busy": round(busy, 2),
        "lease_p99_ms": round(sorted(waits)[int(0.99 * len(waits))], 1),
    }


def busy_s() -> float:
    """Return the seconds that the machine's cores have worked since it started, added up."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft, *_ = map(int, fields)
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _lease(database: Database) -> None:
    with database.transaction() as tx:
        operations.lease_groups(tx, run="r", owner="learner", count=1_000_000, timeout_s=60)


def measure(url: str, turns: int, steps: int) -> dict[str, float]:
    """Return the figures of one store, which does not exist yet, except those of ``write_over_raw``."""
    database = create(url)
    write(database, turns)
    with database.read() as conn:
        per_step = size(conn) / turns
    leases = []
    with database.transaction() as tx:
        for name in tx.conn.execute(text("SELECT id FROM rollout_group ORDER BY no LIMIT 64")).scalars().all():
            operations.close_group(tx, group=name, state=GroupState.READY)
    for n in range(8):
        with database.transaction() as tx:
            leases.append(
                timed(lambda n=n, tx=tx: operations.lease_groups(tx, run="r", owner=f"o{n}", count=8, timeout_s=60))
            )
    grow(database, steps)
    found = {
        "bytes_per_step": round(per_step),
        "lease_ms": round(statistics.median(leases), 2),
        **read(database),
        "resume_s": round(resume(database), 3),
    }
    database.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20_480, help="steps to write per round")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of `write_over_raw`")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of the store that is read")
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    parser.add_argument("--prefix", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        write(open_database(options.writer), options.turns, options.prefix)
        return
    sizes = {"turns": options.turns, "rounds": options.rounds, "steps": options.steps}
    result: dict[str, Any] = {"benchmark": "store", **sizes}
    with tempfile.TemporaryDirectory() as folder:
        written, plain, large = (f"sqlite:///{folder}/{name}.db" for name in ("written", "plain", "large"))
        result["sqlite"] = write_over_raw((written, plain), options.turns, options.rounds)
        result["sqlite"] |= measure(large, options.turns, options.steps)
    print(json.dumps(result), flush=True)
    server = Server()
    try:
        written, plain, large, shared = (server.url(server.create()) for _ in range(4))
        result["postgresql"] = write_over_raw((written, plain), options.turns, options.rounds)
        result["postgresql"] |= measure(large, options.turns, options.steps)
        create(shared).close()
        result["postgresql"] |= concurrent(shared, options.turns // 2)
    finally:
        server.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
