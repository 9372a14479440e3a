"""``turnwise trajectories``: the episodes of a store, one by one and turn by turn."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from ..records import Purpose, Status
from .opening import opened
from .options import DEFAULT_STORE, After, Json, Limit, Store
from .output import ago, console, jsonable, none_of, print_facts, print_json, print_table
from .safe import clean

app = typer.Typer(help="The episodes of a store.", no_args_is_help=True)


@app.command("list")
def list_trajectories(
    run: Annotated[str | None, typer.Option(help="Of this run only.")] = None,
    status: Annotated[Status | None, typer.Option(help="In this state only.")] = None,
    env: Annotated[str | None, typer.Option(metavar="ID", help="Of this environment only.")] = None,
    purpose: Annotated[Purpose | None, typer.Option(help="Played for this only.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="random, oracle, …; the run's own policy is the empty name.")
    ] = None,
    success: Annotated[bool | None, typer.Option("--success/--failure", help="By the environment's verdict.")] = None,
    sort: Annotated[str, typer.Option(help="created_at, reward, n_steps, n_tokens, status or id.")] = "created_at",
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest or oldest first.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Print the ids alone, one a line.")] = False,
    limit: Limit = 100,
    after: After = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """List trajectories, newest first."""
    from ..store import queries

    filters: dict[str, str | bool | None] = {"run": run, "env": env, "policy": policy, "success": success}
    filters |= {"status": status and status.value, "purpose": purpose and purpose.value}
    with opened(store) as database, database.read() as conn:
        if run is not None:
            queries.run_row(conn, run)
        rows = queries.list_trajectories(conn, sort=sort, descending=not ascending, limit=limit, after=after, **filters)
    if as_json:
        print_json(rows)
        return
    if ids:
        for row in rows:
            typer.echo(row["id"])
        return
    now = datetime.now(UTC)
    names = ("id", "status", "success", "reward", "n_steps", "n_tokens")
    shown = [(*(row[name] for name in names), ago(row["created_at"], now)) for row in rows]
    empty = none_of("trajectory", {**filters, "after": after})
    print_table(("id", "status", "success", "reward", "turns", "tokens", "age"), shown, empty=empty)


@app.command()
def show(
    trajectory: Annotated[str, typer.Argument(metavar="ID", help="The trajectory.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="With --json: the messages' tokens too.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show one trajectory, turn by turn: what was seen, what was done, what that brought."""
    from ..store import queries

    with opened(store) as database:
        found = queries.load_trajectory(database, trajectory)
        last = queries.final_observation(database, trajectory)
        with database.read() as conn:
            group = queries.group_of(conn, trajectory)
    if as_json:
        whole = found if tokens else replace(found, messages=())
        print_json({**jsonable(whole), "task": group.task, "horizon": group.horizon, "final_observation": last})
        return
    facts = {"id": found.id, "run": found.run, "group": f"{found.group}, member {found.member}"}
    facts |= {"environment": group.task.env_id, "seed": f"{group.task.seed} ({group.task.split})"}
    facts |= {"status": found.status.value, "success": str(found.success), "reward": f"{found.reward:g}"}
    facts |= {name: clean(str(value)) for name, value in found.facts.items()}
    print_facts({**facts, **({"error": found.error} if found.error else {})})
    out = console()
    for step in found.steps:
        out.print(f"\n{step.index}  {clean(step.observation)}", soft_wrap=True)
        verdict = "" if step.valid else "  (invalid)"
        out.print(f"   > {clean(step.action)}  {step.reward:+g}{verdict}", soft_wrap=True)
    if last is not None:
        out.print(f"\n   {clean(last)}", soft_wrap=True)
