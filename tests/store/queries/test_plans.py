"""No read or write of the store scans a whole table that grows with training, on either engine."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, Table, event
from turnwise.records import GroupState, Purpose, Status
from turnwise.store import operations, queries
from turnwise.store.database import Database
from turnwise.store.errors import NotFound
from turnwise.store.operations.steps import Append, append
from turnwise.store.queries import lists, rewards
from turnwise.store.schema import batch_item, rollout_group
from turnwise.store.schema import trajectory as trajectory_table
from turnwise.tests.store.making import call, create_run, group, items, trajectory, turn

GROWING = {
    "trajectory",
    "rollout_group",
    "step",
    "partial_turn",
    "step_image",
    "message_image",
    "blob",
    "reward",
} | {
    "batch_group",
    "batch_item",
    "train_batch",
    "policy_version",
    "metric",
    "lease",
    "task",
}
"""The tables that grow with training."""
FIRST_PAGES = {"list_trajectories", "list_groups", "demonstrations", "not_found"}
"""Reads of the first rows in the order of an index, which stop at their limit."""
SORT = "(sorted)"
WHOLE_RUN = {"played_seeds", "reused_groups", "returns_in", "success_costs", "tokens_by_run", "waiting"}
"""Reads of every row of one run or reward set, which here has all of the table; SQLite's plans prove their index."""
WHOLE_SET = "every row of a reward set"
"""The own rewards of all runs are one set."""
HELD = {"uq_lease_held", "ix_lease_run_held"}
"""Partial indexes of the leases that are held now, whose number does not grow."""
NOT_READS = {"NULL", "BestCheckpoint", "Branch", "Failures", "GroupFate", "MemberFate", "RunReader", "Updates"} | {
    "training_of"
}
GROUPS = 40
READY, SCORING = GroupState.READY, GroupState.SCORING


def fill(database: Database) -> None:
    """Write ``GROUPS`` scored groups of two trajectories of two turns; half of them are consumed."""
    create_run(database)
    create_run(database, "other")
    create_run(database, "played", kind="eval")
    names = [f"r:{number}" for number in range(GROUPS)]
    with database.transaction() as tx:
        operations.add_version(tx, run="r", update=0, parent=None)
        for number, name in enumerate(names):
            operations.open_group(tx, group=group(name, seed=number % 10))
            members = [f"{name}-{member}" for member in range(2)]
            for member, one in enumerate(members):
                operations.start_trajectory(tx, trajectory=trajectory(one, name, member))
            append.run(tx, [Append(trajectory=one, rows=turn(index)["rows"]) for one in members for index in range(2)])
            for one in members:
                operations.finish_trajectory(tx, trajectory=one, status=Status.COMPLETED, reward=1.0)
            operations.close_group(tx, group=name, state=SCORING)
            each = [operations.Rewards(one, [0.5, 0.5]) for one in members]
            operations.score_group(tx, group=name, number=number, state=READY, rewards=each)
        kept = operations.create_reward_set(tx, run="r", name="judged", component="judge", options={})
        again = [operations.Rewards(f"{name}-{member}", [0.1, 0.2]) for name in names for member in range(2)]
        operations.add_rewards(tx, reward_set=kept, rewards=again)
        operations.open_group(tx, group=group("open"))
        operations.start_trajectory(tx, trajectory=trajectory("running", "open"))
    for number in range(GROUPS // 4):
        update(database, number + 1)
        call(database, "add_metrics", run="r", update=number + 1, metrics={"loss": 0.5})
    if database.engine.dialect.name == "postgresql":
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            for table, values, source in COPIES:
                columns = ", ".join(column.name for column in table.c if column.name not in ("no", *values))
                named, new = ", ".join(values), ", ".join(values.values())
                conn.exec_driver_sql(
                    f"INSERT INTO {table.name} ({named}, {columns}) SELECT {new}, {columns} FROM {table.name}, "  # noqa: S608
                    f"generate_series(1, 2000) AS n WHERE {source}"
                )
            conn.exec_driver_sql("ANALYZE")


OTHER = "(SELECT no FROM run WHERE id = 'other')"
COPIES: list[tuple[Table, dict[str, str], str]] = [
    (rollout_group, {"id": "'more-' || n", "score_no": "NULL", "run_no": OTHER}, "id = 'r:0'"),
    (
        trajectory_table,
        {
            "id": "'more-' || n",
            "uid": "gen_random_uuid()",
            "run_no": OTHER,
            "group_no": "(SELECT no FROM rollout_group WHERE id = 'more-' || n)",
        },
        "id = 'r:0-0'",
    ),
    (
        batch_item,
        {
            "trajectory_no": "(SELECT no FROM trajectory WHERE id = 'more-' || n)",
            "version_id": "2 + mod(n, 8)",
            "fresh": "false",
        },
        "version_id = 1 AND idx = 0",
    ),
]
"""More rows for PostgreSQL, which plans by their number: table, new values of columns, and the row that is copied."""


def update(database: Database, number: int) -> None:
    """Lease two groups and acknowledge them as update ``number``."""
    lease: dict[str, Any] = {"run": "r", "owner": "learner", "count": 2, "timeout_s": 60}
    got = call(database, "lease_groups", **lease)
    batch: dict[str, Any] = {"groups": got, "items": items(got), "metrics": {"loss": 0.1}, "recipe": {"rate": 0.1}}
    for _ in range(2):
        call(database, "acknowledge", run="r", owner="learner", update=number, parent=number - 1, **batch)


class Statements:
    """Records the statements of a store, and explains them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.seen: dict[str, tuple[str, Any]] = {}
        self._name = ""

    def record(self, name: str, work: Callable[[], object]) -> None:
        """Run ``work`` and record its statements under ``name``."""

        def watch(_: Connection, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
            if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
                self.seen.setdefault(statement, (name, parameters[0] if many else parameters))

        event.listen(self._database.engine, "before_cursor_execute", watch)
        try:
            work()
        finally:
            event.remove(self._database.engine, "before_cursor_execute", watch)

    def scans(self) -> dict[str, set[str]]:
        """Return, by name, the growing tables that a statement scans whole."""
        found: dict[str, set[str]] = {}
        is_sqlite = self._database.engine.dialect.name == "sqlite"
        with self._database.read() as conn:
            if not is_sqlite:
                for kind in ("seqscan", "hashjoin", "mergejoin", "material"):
                    conn.exec_driver_sql(f"SET LOCAL enable_{kind} = off")
            for statement, (name, parameters) in self.seen.items():
                plan = (_sqlite if is_sqlite else _postgresql)(conn, statement, parameters)
                scanned = GROWING.intersection(plan) | (plan & {WHOLE_SET} if name not in WHOLE_RUN else set())
                first = name in FIRST_PAGES and "LIMIT" in statement and SORT not in plan
                if scanned and not first and (is_sqlite or name not in WHOLE_RUN):
                    found.setdefault(name, set()).update(scanned)
        return found


def _sqlite(conn: Connection, statement: str, parameters: Any) -> set[str]:
    """Return the tables that SQLite reads whole, also to make an index for one statement; and ``SORT`` if it sorts."""
    names = {alias: table for table, alias in re.findall(r"(\w+) AS (\w+)", statement)}
    found: set[str] = set()
    for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters):
        if scanned := re.match(r"SCAN (\w+)|SEARCH (\w+) USING AUTOMATIC", row[3]):
            name = str(scanned[1] or scanned[2])
            found.add(names.get(name, name))
        if re.match(r"SEARCH \w+ USING (PRIMARY KEY|INDEX sqlite_autoindex_reward_1) \(set_no=\?\)$", row[3]):
            found.add(WHOLE_SET)
        if row[3] == "USE TEMP B-TREE FOR ORDER BY":
            found.add(SORT)
    return found


def _postgresql(conn: Connection, statement: str, parameters: Any) -> set[str]:
    """Return the tables of which PostgreSQL reads every row or index entry; and ``SORT`` if it sorts."""
    (plans,) = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalars()
    found: set[str] = set()
    for node in _nodes(plans[0]["Plan"]):
        if node["Node Type"] == "Sort":
            found.add(SORT)
        if "Relation Name" not in node or not node["Node Type"].endswith("Scan"):
            continue
        bitmaps = [one for one in _nodes(node) if one["Node Type"] == "Bitmap Index Scan"]
        if node.get("Index Name") not in HELD and not all("Index Cond" in one for one in bitmaps or [node]):
            found.add(node["Relation Name"])
    return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def reads(database: Database) -> dict[str, Callable[[Connection], object]]:
    """Return a call of every read, by the name of its function."""
    run, of, one = "r", "r:1", "r:1-0"
    reader = queries.RunReader(run, database)
    with database.read() as first:
        stored = queries.reward_set(first, run, "judged")
    return {
        "acts": lambda conn: queries.acts(conn, one, 0, 2),
        "answered_turns": lambda conn: queries.answered_turns(conn, one),
        "n_turns": lambda conn: queries.n_turns(conn, one),
        "part_sums": lambda conn: queries.part_sums(conn, one),
        "load_turns": lambda _: queries.load_turns(database, one, 0, 1),
        "accounting": lambda conn: queries.accounting(conn, run),
        "active_groups": lambda conn: queries.active_groups(conn, run),
        "batch_metrics": lambda conn: queries.batch_metrics(conn, run),
        "batch_values": lambda conn: queries.batch_values(conn, run, "success", queries.thinned(conn, run, 1)),
        "branches_of": lambda conn: queries.branches_of(conn, one),
        "played_seeds": lambda conn: queries.played_seeds(conn, run, "turnwise/TextSite-v0", {}, "train"),
        "idle_updates": lambda conn: queries.idle_updates(conn, run),
        "cancelled_groups": lambda conn: queries.cancelled_groups(conn, run),
        "best_checkpoint": lambda conn: queries.best_checkpoint(conn, run),
        "find_checkpoint": lambda conn: _no_checkpoint(conn, run),
        "checkpoints": lambda conn: queries.checkpoints(conn, run),
        "failed_for_good": lambda conn: queries.failed_for_good(conn, run),
        "failure_clusters": lambda conn: queries.failure_clusters(conn, run),
        "failure_counts": lambda conn: queries.failure_counts(conn, run),
        "failures_per_update": lambda conn: queries.failures_per_update(conn, run, queries.update_times(conn, run)),
        "update_times": lambda conn: queries.update_times(conn, run),
        "filtered_groups": lambda conn: queries.filtered_groups(conn, run),
        "final_observation": lambda _: queries.final_observation(database, one),
        "group_counts": lambda conn: queries.group_counts(conn, run),
        "group_fates": lambda conn: queries.group_fates(conn, [queries.group_row_of(conn, one)], "running"),
        "group_row_of": lambda conn: queries.group_row_of(conn, one),
        "group_of": lambda conn: queries.group_of(conn, one),
        "latest_checkpoint": lambda conn: queries.latest_checkpoint(conn, run),
        "left_out": lambda conn: queries.left_out(conn, run, 2),
        "since_update_before": lambda conn: queries.since_update_before(conn, run, 2),
        "waiting": lambda conn: queries.waiting(conn, run, 2),
        "list_groups": lambda conn: _pages(conn, queries.list_groups, GROUP_FILTERS),
        "list_metrics": lambda conn: queries.list_metrics(conn, run),
        "kind_of": lambda conn: queries.kind_of(conn, one),
        "list_runs": lambda conn: queries.list_runs(conn),
        "list_trajectories": lambda conn: _pages(conn, queries.list_trajectories, TRAJECTORY_FILTERS),
        "load_group_heads": lambda conn: queries.load_group_heads(conn, [of]),
        "load_groups": lambda _: queries.load_groups(database, [of, "r:2"], texts=True),
        "load_scored": lambda _: queries.load_scored(database, [of]),
        "load_trajectory": lambda _: queries.load_trajectory(database, one),
        "load_update": lambda conn: queries.load_update(conn, run, 1),
        "made_by": lambda conn: queries.made_by(conn, run, [0, 1]),
        "members": lambda conn: queries.members(conn, of),
        "lost_draws": lambda conn: queries.lost_draws(conn, run),
        "next_draw": lambda conn: queries.next_draw(conn, run),
        "next_group": lambda conn: queries.next_group(conn, run),
        "next_scoring": lambda conn: queries.next_scoring(conn, run),
        "find_group": lambda conn: queries.find_group(conn, of),
        "find_run": lambda conn: queries.find_run(conn, run),
        "cut_off": lambda conn: queries.cut_off(conn, run),
        "driven_run": lambda _: queries.driven_run(database, run),
        "driven_runs": lambda _: queries.driven_runs(database, [run]),
        "list_driven_runs": lambda _: queries.list_driven_runs(database, limit=3),
        "evaluations": lambda conn: queries.evaluations(conn, [run]),
        "evaluation_marks": lambda conn: queries.evaluation_marks(conn, [run]),
        "held_out": lambda conn: queries.held_out(conn, queries.evaluation_marks(conn, [run]).get(run, [])),
        "run_summaries": lambda conn: queries.run_summaries(conn, queries.list_runs(conn)),
        "task_results": lambda conn: [
            queries.task_results(conn, one, found.held_out)
            for one in queries.list_runs(conn)
            for found in queries.run_summaries(conn, [one]).values()
        ],
        "success_costs": lambda conn: queries.success_costs(conn, [run]),
        "task_histories": lambda conn: queries.task_histories(conn, run, Purpose.TRAIN),
        "thinned": lambda conn: queries.thinned(conn, run, 2),
        "trajectory_names": lambda conn: queries.trajectory_names(conn, [1, 2]),
        "tokens_by_run": lambda conn: queries.tokens_by_run(conn, [run]),
        "trained_tokens": lambda conn: queries.trained_tokens(conn, run),
        "run_details": lambda _: queries.run_details(database, run),
        "run_totals": lambda conn: queries.run_totals(conn, run),
        "rewards_of": lambda conn: queries.rewards_of(conn, [one, *(f"{name}-x" for name in range(63))]),
        "scored_from": lambda conn: queries.scored_from(conn, run, 2),
        "status_counts": lambda conn: queries.status_counts(conn, run),
        "unscored_groups": lambda conn: queries.unscored_groups(conn, run),
        "surviving_updates": lambda conn: queries.surviving_updates(conn, run),
        "update_numbers": lambda conn: queries.update_numbers(conn, run),
        "updates_with": lambda conn: queries.updates_with(conn, one),
        "versions": lambda conn: queries.versions(conn, run),
        "replayable": lambda conn: lists.replayable(conn, run),
        "draw_replayable": lambda conn: _drawn(conn, run),
        "groups": lambda _: [reader.groups(limit=4, **more) for more in ({}, {"task": "task-1"}, {"min_update": 2})],
        "successes": lambda _: reader.successes("task-1", min_return=0.5, limit=4),
        "demonstrations": lambda _: reader.demonstrations(limit=4, run=run),
        "load_demonstrations": lambda _: reader.load_demonstrations([one]),
        "load": lambda _: reader.load([of]),
        "load_trajectories": lambda _: reader.load_trajectories([one]),
        "load_scored_trajectories": lambda _: rewards.load_scored_trajectories(database, [one], texts=True),
        "not_found": lambda conn: _unknown(conn),
        "reused_groups": lambda conn: queries.reused_groups(conn, run),
        "running_tallies": lambda _: [
            queries.running_tallies(database, **of_one) for of_one in ({"run": run}, {"group": of})
        ],
        "reward_sets": lambda conn: queries.reward_sets(conn, run),
        "reward_set": lambda conn: queries.reward_set(conn, run, stored.name),
        "returns_in": lambda conn: queries.returns_in(conn, stored.no),
        "not_in_set": lambda conn: queries.not_in_set(conn, run, stored.no),
        "scorable": lambda conn: queries.scorable(conn, run),
    }


TRAJECTORY_FILTERS: list[dict[str, Any]] = [
    {},
    {"run": "r"},
    {"run": "r", "status": "env_error"},
    {"env": "turnwise/TextSite-v0"},
    {"policy": "oracle"},
    {"run": "r", "group": "r:1"},
    {"run": "r", "task": "task-1", "versions": (0, 1)},
    *({"run": "r", "sort": sort} for sort in ("reward", "n_steps")),
]
GROUP_FILTERS: list[dict[str, Any]] = [
    {"run": "r"},
    {"run": "r", "state": "ready"},
    {"run": "r", "state": "filtered", "closed": (None, datetime.now(UTC))},
    {"run": "r", "task": "task-1"},
]


def _pages(conn: Connection, query: Callable[..., list[Any]], filters: list[dict[str, Any]]) -> None:
    for one in filters:
        page = query(conn, limit=3, **one)
        if page:
            query(conn, limit=3, after=page[-1].id, **one)


def _drawn(conn: Connection, run: str) -> None:
    lists.draw_replayable(conn, run, 2, Random(0))


def _unknown(conn: Connection) -> None:
    try:
        queries.group_of(conn, "r:1-7")
    except NotFound:
        return
    raise AssertionError("an unknown trajectory was found")


def _no_checkpoint(conn: Connection, run: str) -> None:
    with pytest.raises(NotFound, match="has no checkpoint"):
        queries.find_checkpoint(conn, run)


def test_no_read_scans_a_table_that_grows(database: Database) -> None:
    fill(database)
    statements = Statements(database)
    calls = reads(database)
    assert set(queries.__all__) - NOT_READS <= set(calls)
    for name, read in calls.items():
        with database.read() as conn:
            statements.record(name, lambda read=read, conn=conn: read(conn))  # type: ignore[misc]
    assert len(statements.seen) > len(calls)
    assert statements.scans() == {}


def test_no_write_scans_a_table_that_grows(database: Database) -> None:
    fill(database)
    statements = Statements(database)
    last = GROUPS // 4
    calls: list[tuple[str, dict[str, Any]]] = [
        ("open_group", {"group": group("new")}),
        ("start_trajectory", {"trajectory": trajectory("new-0", "new")}),
        ("append", {"trajectory": "new-0", **turn(0)}),
        ("finish_trajectory", {"trajectory": "new-0", "status": Status.COMPLETED}),
        ("append", {"trajectory": "new-0", **turn(0)}),
        ("grow_group", {"group": "new", "size": 3}),
        ("cancel_trajectories", {"group": "open", "reason": "its worker was lost"}),
        ("close_group", {"group": "new", "state": SCORING}),
        ("score_group", {"group": "new", "number": 99, "state": READY}),
        ("add_rewards", {"reward_set": 1, "rewards": [operations.Rewards("new-0", [0.5])]}),
        ("set_checkpoint", {"run": "r", "version": last - 2, "path": "checkpoint"}),
        ("add_metrics", {"run": "r", "update": last, "metrics": {"loss": 0.4}}),
        ("lease_groups", {"run": "r", "owner": "late", "count": 1, "timeout_s": -1}),
        ("lease_groups", {"run": "r", "owner": "learner", "count": 2, "timeout_s": 60}),
        ("release", {"run": "r", "owner": "learner"}),
        ("expire_groups", {"run": "r", "owner": "learner", "groups": [f"r:{GROUPS - 1}"], "reason": "too old"}),
    ]
    for name, arguments in calls:
        statements.record(name, lambda name=name, arguments=arguments: call(database, name, **arguments))  # type: ignore[misc]
    statements.record("acknowledge", lambda: update(database, last + 1))
    statements.record("rewind", lambda: call(database, "rewind", run="r", version=last - 2))
    statements.record("finish_run", lambda: call(database, "finish_run", run="r", status="finished"))
    assert len(statements.seen) > len(calls)
    assert statements.scans() == {}
