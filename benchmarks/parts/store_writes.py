"""Steps per second through the store's writer, over those of a bulk insert of the same rows by the database's driver.

A round writes ``turns`` steps through the writer, with the starts and ends of their episodes, into one store; then the
driver inserts the rows that the round left in this store, with their final values, into a second store. The stores have
the same schema (columns, keys, indexes), connection settings, and rows at the beginning of each round. The log is
checkpointed, and on PostgreSQL the tables are vacuumed, before each side of a round begins. The driver uses
``executemany``, one call per table, in transactions of as many steps as the writer's. Both sides release each row once
it is inserted.

The figure is the median of the ratios of the rounds: each compares two measurements that are a second apart, so that
another load of the machine slows both. The first round warms up and does not count.
"""

import gc
import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import psycopg
from turnwise.records import Group, Horizon, Message, Role, Source, Status, Step, Task, Trajectory
from turnwise.store import operations
from turnwise.store.content.rows import Rows, Tally, Written, rows_of
from turnwise.store.database import Database, open_database
from turnwise.store.operations import Write
from turnwise.store.writing.commit_queue import MAX_BATCH, CommitQueue

TURNS, MEMBERS, ACTIVE = 8, 8, 64
STEPS_PER_COMMIT = MAX_BATCH * TURNS // (TURNS + 2)
"""Steps of a transaction of the writer; the rest of its writes start and finish episodes."""
OBSERVED = 21
"""Tokens of an observation."""
HORIZON = Horizon(TURNS, 8, 64, 512)
RUN = {"config": {}, "config_hash": "", "kind": "train", "code_version": ""}
_NAN = float("nan")
_TABLES = {"task": "no", "rollout_group": "no", "trajectory": "no", "step": "trajectory_no"}
"""The tables that a round writes, and the column whose values later rounds exceed."""


def turn(index: int, salt: int, observed: int = OBSERVED) -> tuple[list[Step], list[Message]]:
    """Return the records of one turn: an observation of ``observed`` tokens and an action of three."""
    ids = [(salt * 7 + i) % 900 for i in range(observed)]
    parent = 2 * index - 1 if index else None
    unsampled = [0] * observed, [_NAN] * observed, [-1] * observed
    seen = Message(2 * index, parent, Role.USER, Source.ENV, ids, *unsampled)
    logprobs = [-0.1 * (salt % 11), -0.5, -1e-3]
    sampled = [salt % 900, 5, 2]
    versions, message = [salt // 500] * 3, 2 * index + 1
    answer = Message(message, 2 * index, Role.ASSISTANT, Source.POLICY, sampled, [1] * 3, logprobs, versions)
    page = (
        f"page {salt % 4001}\nlink home\nlink search\nfield user ''\nfield password ''\nbutton login\ntext {salt}"
        + " word" * (observed - OBSERVED)
    )
    key, name = f"page{salt % 97}", f"{salt:032x}"
    step = Step(index, page, name, "click search", 0.0, {"shape": 0.01}, False, False, True, key, message, 1.5, 0.2)
    return [step], [seen, answer]


def create(url: str) -> Database:
    """Make a store with run ``r`` and its first version."""
    database = open_database(url, create=True)
    with database.transaction() as tx:
        operations.create_run(tx, run="r", **RUN)
        operations.add_version(tx, run="r", update=0, parent=None)
    return database


def write(database: Database, turns: int, prefix: str = "", observed: int = OBSERVED) -> float:
    """Write episodes of ``TURNS`` turns, ``ACTIVE`` at once, and return steps per second. The run exists.

    The turns that the episodes play at once are one call, as a ``StoreClient`` sends them. The calls are made before
    the clock starts, as other processes make them, and the garbage collector does not look at them. The
    queue stays full, so that the writer's batches are whole.
    """
    prepared = _calls(turns, prefix, observed)
    gc.collect()
    gc.freeze()
    writer = CommitQueue(database)
    calls: deque[Any] = deque()
    start = time.perf_counter()
    while prepared or calls:
        while prepared and len(calls) < 3 * MAX_BATCH // ACTIVE:
            calls.append(writer.submit_all(prepared.popleft()))
        for answer in calls.popleft().result(60):
            if isinstance(answer, BaseException):
                raise answer
    seconds = time.perf_counter() - start
    writer.close()
    gc.unfreeze()
    return turns / seconds


def write_over_raw(stores: tuple[str, str], turns: int, rounds: int) -> dict[str, float]:
    """Return the median rates and the median ratio of ``rounds`` rounds, and the range of their ratios.

    Args:
        stores: the URLs of the writer's store and of the driver's store, which do not exist yet.
        turns: steps per round.
    """
    written, plain = map(create, stores)
    last = dict.fromkeys(_TABLES, 0)
    rates = []
    for number in range(rounds + 1):
        _settle(written)
        through = write(written, turns, f"{number:02d}-")
        rows = _new_rows(written, last)
        _settle(plain)
        rates.append((through, _insert(plain, rows, turns)))
        del rows
    written.close()
    plain.close()
    ratios = sorted(through / bulk for through, bulk in rates[1:])
    return {
        "steps_per_s": round(statistics.median(through for through, _ in rates[1:])),
        "raw_steps_per_s": round(statistics.median(bulk for _, bulk in rates[1:])),
        "write_over_raw": round(statistics.median(ratios), 3),
        "write_over_raw_min": round(ratios[0], 3),
        "write_over_raw_max": round(ratios[-1], 3),
    }


def _calls(turns: int, prefix: str, observed: int) -> deque[list[Write[Any]]]:
    """Return the writes of episodes, in calls of those that ``ACTIVE`` episodes make at once."""
    prepared = [rows_of(*turn(n // ACTIVE % TURNS, n, observed)) for n in range(turns)]
    calls: deque[list[Write[Any]]] = deque()
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
        calls.append(writes)
    return calls


def _tally(turns: Sequence[Rows]) -> Tally:
    """Return the tally of the turns of one episode, which its player computes."""
    written = Written()
    for rows in turns:
        written.add(rows)
    return written.tally()


def _settle(database: Database) -> None:
    """Write the log into the tables, and remove dead rows: the work that the writes before have left over."""
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if conn.dialect.name == "sqlite":
            conn.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        else:
            conn.exec_driver_sql("VACUUM")
            conn.exec_driver_sql("CHECKPOINT")


def _new_rows(database: Database, last: dict[str, int]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows per table that were written since the last call, in the order in which they were made; ``last``
    is the largest number of each table at that call.
    """
    found = {}
    is_sqlite = database.engine.dialect.name == "sqlite"
    with database.read() as conn:
        for name, key in _TABLES.items():
            order = "created_at, trajectory_no" if name == "step" else key
            query = f"SELECT * FROM {name} WHERE {key} > {last[name]} ORDER BY {order}"  # noqa: S608
            rows = conn.exec_driver_sql(query)
            found[name] = [tuple(row if is_sqlite else map(_adapted, row)) for row in rows]
            last[name] = conn.exec_driver_sql(f"SELECT max({key}) FROM {name}").scalar_one()  # noqa: S608
    return found


def _adapted(value: Any) -> Any:
    return psycopg.types.json.Jsonb(value) if isinstance(value, dict | list) else value


def _insert(database: Database, rows: dict[str, list[tuple[Any, ...]]], turns: int) -> float:
    """Insert ``rows`` by the driver, and return steps per second."""
    with database.engine.connect() as conn:
        connection: Any = conn.connection.driver_connection
        is_sqlite = conn.dialect.name == "sqlite"
        if not is_sqlite:
            connection.autocommit = True
        marks = {name: ",".join(["?" if is_sqlite else "%s"] * len(found[0])) for name, found in rows.items() if found}
        inserts = {name: f"INSERT INTO {name} VALUES ({listed})" for name, listed in marks.items()}  # noqa: S608
        count = -(-turns // STEPS_PER_COMMIT)
        batches = [_share(rows, number, count) for number in reversed(range(count))]
        rows.clear()
        gc.collect()
        gc.freeze()
        cursor = connection.cursor()
        start = time.perf_counter()
        while batches:
            cursor.execute("BEGIN")
            for name, batch in batches.pop().items():
                if batch:
                    cursor.executemany(inserts[name], batch)
            cursor.execute("COMMIT")
        seconds = time.perf_counter() - start
        gc.unfreeze()
        if not is_sqlite:
            connection.autocommit = False
    return turns / seconds


def _share(rows: dict[str, list[tuple[Any, ...]]], number: int, count: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of transaction ``number`` of ``count``. All tasks are in the first, which refers to most."""
    first, end = ({name: -(-len(found) * n // count) for name, found in rows.items()} for n in (number, number + 1))
    end["task"] = len(rows["task"]) if number == 0 else 0
    return {name: found[first[name] : end[name]] for name, found in rows.items()}
