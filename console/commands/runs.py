"""``turnwise runs``: list, show, stop, fork and re-train the runs of a store."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...errors import TurnwiseError
from ...records import GroupState
from ...store.project import DEFAULT_STORE
from ..options import MAX_COUNT, After, Imports, Json, Limit, LogLevel, Overrides, Run, Store, complete_run, open_store
from ..terminal.output import ago, echo, empty_message, format_value, jsonable, print_fields, print_json
from ..terminal.rates import interval, print_rates, rate_fields
from ..terminal.sanitize import one_line
from ..terminal.tables import print_table

if TYPE_CHECKING:
    from ...base.rates import Rate
    from ...store.database import Database
    from ...store.queries.lists import RunRow
    from ...store.queries.run_details import DrivenRun, RunDetails
    from ...store.queries.run_summaries import RunSummary
    from ...trainer.run.retraining import RepeatedUpdate

app = typer.Typer(help="List, compare, stop, fork and repeat training runs and evaluations.", no_args_is_help=True)

RunStatus = Literal["running", "interrupted", "finished", "failed", "stopped"]
RunKind = Literal["train", "eval"]
LIST_COLUMNS = ("id", "kind", "status", "driver", "parent_id", "created_at", "ended_at", "stop_requested", "error")
RUN_COLUMNS = (
    *("run", "status", "updates", "success", "reward", "held out", "age", "environments", "kind"),
    *("forked from", "error"),
)
CUT_OFF = "cut off by the end of the run"
REQUIRED = 4
"""Columns that a narrow terminal shows."""
LAST_METRICS = (
    "success",
    "reward",
    "turns_per_episode",
    "horizon_turns",
    "staleness_mean",
    "staleness_max",
    "loss",
    "entropy",
)


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
    """List runs, newest first: success and mean reward of the newest update, or of the evaluation.

    `held out` is the success in the newest evaluation of a training run.
    """
    from ...store import queries

    filters = {"status": status, "kind": kind}
    with open_store(store) as database:
        found = queries.list_driven_runs(database, limit=limit, after=after, status=status, kind=kind)
        with database.read() as conn:
            summaries = queries.run_summaries(conn, [one.run for one in found])
    if as_json:
        print_json([_listed(one) | jsonable(summaries[one.run.id]) for one in found])
        return
    now = datetime.now(UTC)
    empty = empty_message("run", {**filters, "after": after})
    print_table(RUN_COLUMNS, [_row(one, summaries[one.run.id], now) for one in found], empty=empty, required=REQUIRED)


@app.command()
def show(run: Run, store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Show one run: status, groups, trajectories, checkpoint and last metrics."""
    from ...store import queries

    with open_store(store) as database:
        found = queries.run_details(database, run)
        rate, by_environment = _rates(database, found.driven.run)
    if as_json:
        print_json({**_as_json(found), "rate": rate, "by_environment": by_environment})
        return
    listed = _listed(found.driven) | {"status": _status(found.driven), "driver": None}
    fields = {name: value for name, value in listed.items() if value not in (None, "", False)}
    is_eval = found.driven.run.kind == "eval"
    played = {"policy": found.driven.run.config.get("policy"), "trajectories": _counts(found.statuses)}
    fields |= played if is_eval else _training_fields(found)
    fields |= {} if rate is None else rate_fields(rate, "success" if is_eval else "held out")
    print_fields({**fields, "reward sets": ", ".join(reward_set.name for reward_set in found.reward_sets)})
    print_rates({run: by_environment})


@app.command()
def stop(run: Run, store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Request that a training run stops. It writes a checkpoint and ends; the same `turnwise train` resumes it."""
    from ...store import operations, queries

    with open_store(store) as database:
        found = queries.driven_run(database, run)
        status, is_training = found.status, found.run.kind == "train"
        if status != "running" and (status != "interrupted" or not is_training):
            raise NotRunning(f"run {run} is {status}; there is nothing to stop")
        if not is_training:
            raise NotStoppable(
                f"{run} is an evaluation, which reads no request to stop; press Ctrl-C or send SIGTERM to its process"
            )
        with database.transaction() as tx:
            operations.request_stop(tx, run=run)
    if as_json:
        print_json({"run": run, "status": status, "stop_requested": True})
    elif status == "interrupted":
        echo(f"requested run {run} to stop, but its driver may be gone; the same `turnwise train` resumes the run")
    else:
        echo(f"requested run {run} to stop; the run stops after its current update")


@app.command()
def fork(
    origin: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The run, whose newest checkpoint is taken, or RUN@UPDATE.",
            autocompletion=complete_run,
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the new run. Default: RUN-2, or the next free number.")
    ] = None,
    overrides: Overrides = None,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Start a new run from a checkpoint of RUN, with the configuration of RUN and the overrides of --set.

    It begins with the weights and a new optimizer. The same command again resumes it.
    """
    from ...store import queries
    from ...trainer.config.loading import override, parse_config
    from ...trainer.run.identity import Origin
    from .train import start

    with open_store(store) as database, database.read() as conn:
        found = queries.find_run(conn, origin.partition("@")[0])
        if found.kind != "train":
            raise NotForkable(f"{found.id} is a run of kind {found.kind}; only a training run can be forked")
        raw = {**found.config, "name": name or found.id}
        for assignment in overrides or []:
            override(raw, assignment)
        version = queries.find_checkpoint(conn, origin)
    start(parse_config(raw), store=store, fork=Origin(found.id, version.id), as_json=as_json)


@app.command("retrain")
def retrain_run(
    run: Run,
    last: Annotated[int | None, typer.Option("--last", min=1, max=MAX_COUNT, help="The last update to repeat.")] = None,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Repeat the updates of RUN from the store, and compare the weights after each; exit 1 at the first difference.

    RUN was trained on a CPU; its first checkpoint is loaded. Nothing is played and nothing is written.
    """
    from ...trainer.run.retraining import retrain

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


def _rates(database: "Database", run: "RunRow") -> "tuple[Rate | None, Mapping[str, Rate]]":
    """Return the success in the newest evaluation of a training run, or of an evaluation; and by environment."""
    from ...store import queries
    from ...trainer.evaluation.heldout import stored_rate

    with database.read() as conn:
        if run.kind == "train":
            return stored_rate(run, {}, queries.run_summaries(conn, [run])[run.id].held_out)
        return stored_rate(run, queries.task_results(conn, run, None), None)


def _status(one: "DrivenRun") -> str:
    """Return the printed status; it states when the driver is not visible from this host."""
    return f"{one.status} (driver not visible from this host)" if one.driver == "unknown" else one.status


def _row(one: "DrivenRun", summary: "RunSummary", now: datetime) -> tuple[object, ...]:
    run, rate, held_out = one.run, summary.success, summary.held_out
    return (
        *(run.id, _status(one), summary.updates or "", "" if rate is None else f"{rate:.2f}", summary.reward),
        f"{held_out.rate.success:.2f} ({held_out.name})" if held_out and held_out.rate.tasks else "",
        *(ago(run.created_at, now), ", ".join(summary.environments), run.kind, run.parent_id),
        one_line(run.error, 100),
    )


def _listed(one: "DrivenRun") -> dict[str, Any]:
    """Return the columns of a list."""
    return {name: getattr(one if name in ("status", "driver") else one.run, name) for name in LIST_COLUMNS}


def _as_json(found: "RunDetails") -> dict[str, Any]:
    saved = found.checkpoint
    return {
        **jsonable(found.driven.run),
        "driver": found.driven.driver,
        "status": found.driven.status,
        "updates": found.updates,
        "idle_updates": found.idle_updates,
        "checkpoint": saved.checkpoint if saved else "",
        "checkpoint_version": saved.id if saved else None,
        "best_checkpoint": jsonable(found.best) if found.best else None,
        "groups": {**found.groups, "cancelled": found.cancelled},
        "filtered": found.filtered,
        "statuses": found.statuses,
        "accounting": found.accounting,
        "failures": found.failures,
        "cut_off": found.cut_off,
        "last_metrics": found.last_metrics,
        "reward_sets": [reward_set.name for reward_set in found.reward_sets],
    }


def _training_fields(found: "RunDetails") -> dict[str, Any]:
    """Return the fields that only a training run has."""
    from ...trainer.telemetry.events import REWARD_PART, component_metrics

    saved, last = found.checkpoint, found.last_metrics or {}
    return {
        "updates": found.updates,
        "checkpoint": f"version {saved.id}: {saved.checkpoint}" if saved else "none",
        "best checkpoint": _best(found),
        "groups": _counts({**_groups(found), CUT_OFF: found.cancelled}),
        "filtered": "; ".join(
            f"{one.groups} {one.reason} ({one.solved} all solved, {one.unsolved} all unsolved), mean return "
            f"{one.mean_return:.2f}"
            for one in found.filtered
        ),
        "trajectories": _counts({**found.accounting, "failed": _failed(found), CUT_OFF: found.cut_off}),
        "changed": "\n".join(_change(one) for one in found.driven.run.changes),
        "last update": {name: last[name] for name in LAST_METRICS if last.get(name) is not None},
        "trained on nothing": f"{found.idle_updates} updates: their gradient is 0" if found.idle_updates else "",
        "components": {one_line(name, 40): value for name, value in component_metrics(last).items()},
        "reward parts": {
            one_line(name.removeprefix(REWARD_PART), 40): value
            for name, value in last.items()
            if name.startswith(REWARD_PART)
        },
    }


def _groups(found: "RunDetails") -> dict[str, int]:
    """Return the groups by state; no update needs the ready ones of a run that has ended."""
    has_ended = found.driven.run.status != "running"
    return {
        "ready, not needed" if has_ended and state is GroupState.READY else state.value: count
        for state, count in found.groups.items()
    }


def _best(found: "RunDetails") -> str:
    """Return the checkpoint with the highest held-out success; empty if none was evaluated."""
    if (best := found.best) is None:
        return ""
    success = interval(best.success, best.low, best.high)
    return f"version {best.version}, update {best.update}, held-out success {success}: {best.path}"


def _change(change: Mapping[str, Any]) -> str:
    """Return the keys that a resume changed, each with its old and its new value."""
    keys = [f"{key} from {_value(old)} to {_value(new)}" for key, (old, new) in change["keys"].items()]
    return f"after update {change['after_update']}: {', '.join(keys)}"


def _value(value: object) -> str:
    return "none" if value is None else json.dumps(value)


def _failed(found: "RunDetails") -> str:
    """Return the failed trajectories, split into their own failures and members of failed groups."""
    total, failures = found.accounting["failed"] - found.cut_off, found.failures
    others = {"members of failed groups": total - sum(failures.values())}
    return f"{total} ({_counts({**failures, **others})})" if total else ""


def _counts(counts: Mapping[Any, object]) -> str:
    return format_value({name: count for name, count in counts.items() if count}) or "none"
