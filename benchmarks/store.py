"""Measure the store on SQLite and PostgreSQL: its writes, the size of a step, and the reads of a large store.

A step is one row of ``step``, with two messages that have 24 tokens together. The parts, each on both databases:

1. ``write_over_raw``: steps per second through the writer, with the starts and ends of episodes, over those of a bulk
   insert of the same rows by the database's driver in as many transactions. ``bytes_per_step``: size of the database.
2. ``list_p95_ms``: 95th percentile of the slowest kind of list page (every sort, every filter), ``open_ms``: median of
   loading a trajectory, both in a store of ``--steps`` steps. ``resume_s``: a resume of a run with 12,000 consumed
   groups.
3. PostgreSQL only: the steps per second of 8 writing processes over those of one (``writers_over_one``), the cores of
   the machine that they and the server keep busy (``cores_busy``), and the 99th percentile of the learner's lease
   meanwhile (``lease_p99_ms``).

Prints one JSON line last.
"""

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, text
from turnwise.records import Group, GroupState, Horizon, Message, Role, Source, Status, Step, Task, Trajectory
from turnwise.store import operations, queries
from turnwise.store.content.rows import Rows, rows_of
from turnwise.store.content.written import Tally, Written
from turnwise.store.database import Database, open_database
from turnwise.store.operations import Write
from turnwise.store.queries.lists import TRAJECTORY_SORTS
from turnwise.store.writing.writer import MAX_BATCH, WRITE_TIMEOUT_S, TimedWrite, Writer
from turnwise.tests.store.postgres import Server

NAN = math.nan
TURNS, MEMBERS, ACTIVE = 8, 8, 64
STEPS_PER_COMMIT = MAX_BATCH * TURNS // (TURNS + 2)
"""Steps of a transaction of the writer; the rest of its writes start and finish episodes."""
HORIZON = Horizon(TURNS, 8, 64, 512)
RUN = {"config": {}, "config_hash": "", "kind": "train", "code_version": ""}
CONSUMED_GROUPS = 12_000
WRITERS = 8


def turn(index: int, salt: int) -> tuple[list[Step], list[Message]]:
    """Return the records of one turn: an observation of 21 tokens and an action of three."""
    ids = [(salt * 7 + i) % 900 for i in range(21)]
    parent = 2 * index - 1 if index else None
    seen = Message(2 * index, parent, Role.USER, Source.ENV, ids, [0] * 21, [NAN] * 21, [-1] * 21)
    logprobs = [-0.1 * (salt % 11), -0.5, -1e-3]
    sampled = [salt % 900, 5, 2]
    versions, said = [salt // 500] * 3, 2 * index + 1
    answer = Message(said, 2 * index, Role.ASSISTANT, Source.POLICY, sampled, [1] * 3, logprobs, versions)
    page = f"page {salt % 4001}\nlink home\nlink search\nfield user ''\nfield password ''\nbutton login\ntext {salt}"
    key, name = f"page{salt % 97}", f"{salt:032x}"
    step = Step(index, page, name, "click search", 0.0, {"shape": 0.01}, False, False, True, key, said, 1.5, 0.2)
    return [step], [seen, answer]


def write(url: str, turns: int, prefix: str = "") -> float:
    """Write episodes of ``TURNS`` turns, ``ACTIVE`` at once, and return steps per second. The run exists.

    The turns that the episodes play at once are one call, as a ``StoreClient`` sends them. The calls are made before
    the clock starts, as other processes make them, and the garbage collector does not look at them. The
    queue stays full, so that the writer's batches are whole.
    """
    database = open_database(url)
    prepared = _calls(turns, prefix)
    gc.freeze()
    writer = Writer(database)
    calls: deque[Any] = deque()
    start = time.perf_counter()
    while prepared or calls:
        while prepared and len(calls) < 3 * MAX_BATCH // ACTIVE:
            calls.append(writer.submit_all(prepared.popleft()))
        for answer in calls.popleft().result(60):
            if not answer.committed:
                raise answer.value
    seconds = time.perf_counter() - start
    writer.close()
    database.close()
    return turns / seconds


def _calls(turns: int, prefix: str) -> deque[list[TimedWrite]]:
    """Return the writes of episodes, in calls of those that ``ACTIVE`` episodes make at once."""
    prepared = [rows_of(*turn(n // ACTIVE % TURNS, n)) for n in range(turns)]
    calls: deque[list[TimedWrite]] = deque()
    for first in range(0, turns, ACTIVE):
        writes: list[Write[Any]] = []
        for n in range(first, min(first + ACTIVE, turns)):
            episode, index = n // (ACTIVE * TURNS), n // ACTIVE % TURNS
            group = f"{prefix}g{episode:06d}-{n % ACTIVE // MEMBERS}"
            name = f"{group}-{n % MEMBERS}"
            if index == 0:
                if n % MEMBERS == 0:
                    task = Task(f"task{n % 50}", "turnwise/TextSite-v0", "1", n, "train")
                    opened = Group(group, "r", task, HORIZON, MEMBERS)
                    writes.append(operations.open_group.bind(group=opened))
                head = Trajectory(name, "r", group, n % MEMBERS, 0)
                writes.append(operations.start_trajectory.bind(trajectory=head))
            writes.append(operations.append.bind(trajectory=name, rows=prepared[n]))
            if index == TURNS - 1:
                end = {"status": Status.COMPLETED, "reward": n % 7, "final_observation": f"done {n}"}
                tally = _tally(prepared[n - (TURNS - 1) * ACTIVE : n + 1 : ACTIVE])
                writes.append(operations.finish_trajectory.bind(trajectory=name, tally=tally, **end))
        calls.append([TimedWrite(write, WRITE_TIMEOUT_S) for write in writes])
    return calls


def _tally(turns: Sequence[Rows]) -> Tally:
    """Return the tally of the turns of one episode, which its player computes."""
    written = Written()
    for rows in turns:
        written.add(rows)
    return written.tally()


def create(url: str) -> Database:
    """Make a store with run ``r`` and its first version."""
    database = open_database(url, create=True)
    with database.transaction() as tx:
        operations.create_run(tx, run="r", **RUN)
        operations.add_version(tx, run="r", update=0, parent=None)
    return database


def raw(database: Database, turns: int, folder: Path) -> float:
    """Return the rate of inserting the same rows into empty tables, by the driver, with the settings of the store's
    connections, in the order in which the rows were made, in as many transactions."""
    tables = ("task", "rollout_group", "trajectory", "step")
    listed = {name: f"SELECT * FROM {name} ORDER BY {'no' if name == 'task' else 'created_at'}" for name in tables}  # noqa: S608
    with database.read() as conn:
        rows = {name: [tuple(row) for row in conn.exec_driver_sql(query)] for name, query in listed.items()}
    if database.engine.dialect.name == "sqlite":
        target: Any = create(f"sqlite:///{folder}/raw.db").engine.raw_connection().driver_connection
        mark, prefix = "?", ""
    else:
        target = psycopg.connect(database.engine.url.set(drivername="postgresql").render_as_string(False))
        target.autocommit = True
        mark, prefix = "%s", "raw_"
        for name in tables:
            target.execute(f"CREATE TABLE raw_{name} (LIKE {name} INCLUDING ALL)")
        rows = {name: [tuple(map(_adapted, row)) for row in found] for name, found in rows.items()}
    gc.freeze()
    batches = turns // STEPS_PER_COMMIT
    cursor = target.cursor()
    marks = {name: ",".join([mark] * len(found[0])) for name, found in rows.items()}
    inserts = {name: f"INSERT INTO {prefix}{name} VALUES ({listed})" for name, listed in marks.items()}  # noqa: S608
    cursor.executemany(inserts["task"], rows.pop("task"))
    start = time.perf_counter()
    for number in range(batches):
        cursor.execute("BEGIN")
        for name, found in rows.items():
            first, last = (-(-len(found) * n // batches) for n in (number, number + 1))
            if last > first:
                cursor.executemany(inserts[name], found[first:last])
        cursor.execute("COMMIT")
    seconds = time.perf_counter() - start
    target.close()
    return turns / seconds


def _adapted(value: Any) -> Any:
    return psycopg.types.json.Jsonb(value) if isinstance(value, dict | list) else value


def size(conn: Connection) -> int:
    """Return the bytes of the database."""
    if conn.dialect.name == "sqlite":
        pages, page_bytes = (conn.exec_driver_sql(f"PRAGMA page_{name}").scalar_one() for name in ("count", "size"))
        return int(pages * page_bytes)
    tables = "FROM pg_class WHERE relkind = 'r' AND relname !~ '^(pg_|sql_|raw_)'"
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
    for sort in TRAJECTORY_SORTS:
        for chosen in filters:
            if sort != "created_at" and "run" not in chosen:
                continue
            times, after = [], None
            for _ in range(20):
                page: list[dict[str, Any]] = []

                def load(after: str | None = after, page: list[dict[str, Any]] = page) -> None:
                    with database.read() as conn:
                        page += queries.list_trajectories(conn, sort=sort, limit=50, after=after, **chosen)  # noqa: B023

                times.append(timed(load))
                after = page[-1]["id"] if page else None
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


def measure(url: str, turns: int, steps: int, folder: Path) -> dict[str, float]:
    """Return the figures of one database."""
    create(url).close()
    through = write(url, turns)
    database = open_database(url)
    with database.read() as conn:
        per_step = size(conn) / turns
    bulk = raw(database, turns, folder)
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
        "steps_per_s": round(through),
        "write_over_raw": round(through / bulk, 3),
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
    parser.add_argument("--turns", type=int, default=20_480, help="steps to write")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of the store that is read")
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    parser.add_argument("--prefix", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        write(options.writer, options.turns, options.prefix)
        return
    result: dict[str, Any] = {"benchmark": "store", "turns": options.turns, "steps": options.steps}
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        result["sqlite"] = measure(f"sqlite:///{folder}/store.db", options.turns, options.steps, folder)
        print(json.dumps(result), flush=True)
    server = Server()
    try:
        with tempfile.TemporaryDirectory() as top:
            result["postgresql"] = measure(server.url(server.create()), options.turns, options.steps, Path(top))
        shared = server.url(server.create())
        create(shared).close()
        result["postgresql"] |= concurrent(shared, options.turns // 2)
    finally:
        server.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
