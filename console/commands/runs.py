"""``turnwise runs``: list, show, stop, fork and re-train the runs of a store."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...errors import TurnwiseError
from ...records import GroupState
from ..options import DEFAULT_STORE, MAX_COUNT, After, Json, Limit, LogLevel, Overrides, Store
from ..stores import open_store
from ..terminal.output import ago, echo, empty_message, format_value, print_fields, print_json, print_table
from ..terminal.sanitize import one_line

if TYPE_CHECKING:
    from ...store.database import Database
    from ...trainer.run.retraining.repeat import RepeatedUpdate

app = typer.Typer(help="The runs of a store.", no_args_is_help=True)

RunStatus = Literal["running", "interrupted", "finished", "failed", "stopped"]
RunKind = Literal["train", "eval"]
Row = dict[str, Any]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")]
LIST_COLUMNS = ("id", "kind", "status", "driver", "parent_id", "created_at", "ended_at", "stop_requested", "error")
LAST_METRICS = ("success", "reward", "horizon_turns", "staleness_mean", "staleness_max", "loss", "entropy")


class NotRunning(TurnwiseError):
    """The run to stop is not running."""


class NotStoppable(TurnwiseError):
    """The run is not a training run: its process reads no request to stop."""


class NotForkable(TurnwiseError):
    """The run is not a training run."""


@app.command("list")
def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help="Only runs with this status.")] = None,
    kind: Annotated[RunKind | None, typer.Option(help="Only runs of this kind.")] = None,
    limit: Limit = 100,
    after: After = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    filters = {"status": status, "kind": kind}
    with open_store(store) as database:
        rows = _page(database, status, kind, limit, after)
    if as_json:
        print_json([{name: row[name] for name in LIST_COLUMNS} for row in rows])
        return
    now = datetime.now(UTC)
    shown = [
        (r["id"], r["kind"], _status(r), ago(r["created_at"], now), r["parent_id"], one_line(r["error"], 100))
        for r in rows
    ]
    empty = empty_message("run", {**filters, "after": after})
    print_table(("run", "kind", "status", "age", "forked from", "error"), shown, empty=empty)


@app.command()
def show(run: Run, store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Show one run: status, groups, trajectories, checkpoint and last metrics."""
    found = _gather(run, store)
    if as_json:
        print_json(found)
        return
    fields = {name: found[name] for name in LIST_COLUMNS if name != "driver" and found[name] not in (None, "", False)}
    fields["status"] = _status(found)
    fields |= {"trajectories": _counts(found["statuses"])} if found["kind"] == "eval" else _training_fields(found)
    print_fields({**fields, "reward sets": ", ".join(found["reward_sets"])})


@app.command()
def stop(run: Run, store: Store = DEFAULT_STORE) -> None:
    """Request that a training run stops. It writes a checkpoint and ends; the same `turnwise train` resumes it."""
    from ...store import operations, queries

    with open_store(store) as database:
        with database.read() as conn:
            row = dict(queries.run_row(conn, run))
        status = _with_driver(database, [row])[0]["status"]
        if status != "running" and (status != "interrupted" or row["kind"] != "train"):
            raise NotRunning(f"run {run} is {status}; there is nothing to stop")
        if row["kind"] != "train":
            raise NotStoppable(
                f"{run} is an evaluation, which reads no request to stop; press Ctrl-C or send SIGTERM to its process"
            )
        with database.transaction() as tx:
            operations.request_stop(tx, run=run)
    if status == "interrupted":
        echo(f"requested run {run} to stop, but its driver may be gone; the same `turnwise train` resumes the run")
    else:
        echo(f"requested run {run} to stop; the run stops after its current update")


@app.command()
def fork(
    run: Run,
    overrides: Overrides = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Start a new run with the configuration of RUN and the overrides of --set.

    It begins with the newest checkpoint of RUN or, if there are runs RUN-2, RUN-3, …, of the last one.
    """
    from ...store import queries
    from ...trainer.config.loading import override, parse_config
    from .train import start

    with open_store(store) as database, database.read() as conn:
        row = queries.run_row(conn, run)
    if row["kind"] != "train":
        raise NotForkable(f"{run} is a run of kind {row['kind']}; only a training run can be forked")
    raw = {**row["config"], "name": run}
    for assignment in overrides or []:
        override(raw, assignment)
    start(parse_config(raw), store=store, fork=True, as_json=as_json)


@app.command("retrain")
def retrain_run(
    run: Run,
    last: Annotated[int | None, typer.Option("--last", min=1, max=MAX_COUNT, help="The last update to repeat.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Repeat the updates of RUN from the store, and compare the weights after each; exit 1 at the first difference.

    RUN was trained on a CPU; its first checkpoint is loaded. Nothing is played and nothing is written.
    """
    from ...trainer.run.retraining.repeat import retrain

    def shown(one: "RepeatedUpdate") -> None:
        verdict = f"equal  {one.hash[:16]}" if one.matches else f"differs: {one.hash}, stored {one.stored_hash}"
        echo(f"update {one.update}  version {one.version}  {verdict}")

    with open_store(store) as database:
        result = retrain(database, run, last=last, report=(lambda one: None) if as_json else shown)
    first = result.first_difference
    equal = len(result.updates) - (first is not None)
    if as_json:
        found = {"run": run, "start": result.start, "total": result.total, "equal": equal}
        print_json({**found, "first_difference": first, "weights_hash": result.updates[-1].hash})
    else:
        echo(f"{equal} of {result.total} updates are equal, bit for bit, from update {result.start + 1} on")
        for note in first.notes if first else ():
            echo(f"note: {note}")
    if first is not None:
        raise typer.Exit(1)


def _page(database: "Database", status: str | None, kind: str | None, limit: int, after: str | None) -> list[Row]:
    """Return one page of runs with their drivers. ``status`` is the printed status; the store has no `interrupted`."""
    from ...store import queries

    stored = "running" if status == "interrupted" else status
    found: list[Row] = []
    while True:
        with database.read() as conn:
            rows = queries.list_runs(conn, limit=limit, after=after, status=stored, kind=kind)
        found += [row for row in _with_driver(database, rows) if status in (None, row["status"])]
        if len(rows) < limit or len(found) >= limit:
            return found[:limit]
        after = rows[-1]["id"]


def _with_driver(database: "Database", rows: list[Row]) -> list[Row]:
    """Return the rows with ``driver``: alive, gone or unknown; None for a run that ended.

    A run whose driver is gone has the status ``interrupted``.
    """
    if not any(row["status"] == "running" for row in rows):
        return [{**row, "driver": None} for row in rows]
    from ...store import queries
    from ...store.run_lock import Driver, driver_of

    drivers = {row["id"]: driver_of(database, row["id"]) for row in rows if row["status"] == "running"}
    with database.read() as conn:  # read again: a driver records the end of its run and then releases the lock
        rows = [dict(queries.run_row(conn, row["id"])) if row["id"] in drivers else row for row in rows]
    out = []
    for row in rows:
        driver = drivers.get(row["id"]) if row["status"] == "running" else None
        out.append({**row, "driver": driver, "status": "interrupted" if driver is Driver.GONE else row["status"]})
    return out


def _status(row: Mapping[str, Any]) -> str:
    """Return the printed status; it states when the driver is not visible from this host."""
    return f"{row['status']} (driver not visible from this host)" if row["driver"] == "unknown" else str(row["status"])


def _gather(run: str, store: str) -> dict[str, Any]:
    from ...store import queries

    with open_store(store) as database, database.read() as conn:
        row = _with_driver(database, [dict(queries.run_row(conn, run))])[0]
        surviving = [version for version in queries.versions(conn, run).values() if not version.abandoned]
        metrics = queries.batch_metrics(conn, run)
        row["updates"] = max([0, *(version.update for version in surviving)])
        newest = queries.latest_checkpoint(conn, run)
        row["checkpoint"] = newest.checkpoint if newest else ""
        row["checkpoint_version"] = newest.id if newest else None
        groups, cancelled = queries.group_counts(conn, run), queries.cancelled_groups(conn, run)
        row["groups"] = {**groups, GroupState.FAILED: groups[GroupState.FAILED] - cancelled, "cancelled": cancelled}
        row["statuses"] = queries.status_counts(conn, run)
        row["accounting"] = queries.accounting(conn, run)
        row["failures"] = queries.failure_counts(conn, run)
        row["last_metrics"] = metrics[-1] if metrics else None
        row["reward_sets"] = [one.name for one in queries.reward_sets(conn, run)]
    return row


def _training_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that only a training run has."""
    fields: dict[str, Any] = {"updates": found["updates"]}
    at = f"version {found['checkpoint_version']}: {found['checkpoint']}"
    fields["checkpoint"] = at if found["checkpoint"] else "none"
    fields["groups"] = _counts(found["groups"])
    fields["trajectories"] = _counts(found["accounting"] | {"failed": _failed(found)})
    last = found["last_metrics"] or {}
    fields["last update"] = {name: last[name] for name in LAST_METRICS if last.get(name) is not None}
    return fields


def _failed(found: Mapping[str, Any]) -> str:
    """Return the failed trajectories, split into their own failures and members of failed or unfinished groups."""
    total, failures = found["accounting"]["failed"], found["failures"]
    others = {"members of failed or unfinished groups": total - sum(failures.values())}
    return f"{total} ({_counts(failures | others)})" if total else ""


def _counts(counts: Mapping[Any, object]) -> str:
    return format_value({name: count for name, count in counts.items() if count}) or "none"
