"""``turnwise trajectories``: list, search and branch the episodes of a store."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import TurnwiseError
from ...records import SCORED_STATUSES
from ...store.project import DEFAULT_STORE
from ..options import (
    MAX_COUNT,
    After,
    ApiKeyEnv,
    Imports,
    Json,
    Limit,
    LogLevel,
    OfEnv,
    OfPolicy,
    OfPurpose,
    OfRun,
    OfStatus,
    OfSuccess,
    SandboxOptions,
    Store,
    Temperature,
    open_store,
    refuse_together,
)
from ..terminal.output import (
    ago,
    console,
    echo,
    empty_message,
    jsonable,
    print_json,
)
from ..terminal.sanitize import sanitize
from ..terminal.tables import print_table
from .envs import read_options

if TYPE_CHECKING:
    from ...store.operations import Rewards

app = typer.Typer(help="List, show, search, replay, branch, export and import episodes.", no_args_is_help=True)


class RunMissing(TurnwiseError):
    """``--rewards`` was given without ``--run``."""


@app.command()
def search(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help='Words that all occur; also "a phrase", -excluded and OR.')
    ],
    run: OfRun = None,
    limit: Limit = 50,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Search observations, actions and errors, best match first.

    The first search of a store indexes it; later ones index the trajectories that ended since.
    """
    from ...store import queries
    from ...store.maintenance.search_index import clean, hits_of, update_index
    from ...store.queries.search import parse
    from ...store.queries.search import search as find

    parsed = parse(clean(query))
    with open_store(store) as database:
        with database.read() as conn:
            if run is not None:
                queries.find_run(conn, run)
        is_complete = update_index(database)
        with database.read() as conn:
            entries = find(conn, parsed, run=run, limit=limit).entries
            hits = hits_of(conn, database.blobs, entries, parsed.terms)
    if as_json:
        print_json({"complete": is_complete, "hits": hits})
    else:
        columns = ("trajectory", "turn", "field", "status", "text")
        rows = [[getattr(hit, name) for name in columns] for hit in hits]
        print_table(columns, rows, empty=empty_message("turn", {"query": query, "run": run}))
    if not is_complete:
        console(stderr=True).print("some trajectories are not indexed yet: search again to index more", soft_wrap=True)


@app.command("list")
def list_trajectories(
    run: OfRun = None,
    status: OfStatus = None,
    env: OfEnv = None,
    purpose: OfPurpose = None,
    policy: OfPolicy = None,
    success: OfSuccess = None,
    sort: Annotated[
        str, typer.Option(help="Sort by created_at or, with --run, the ended trajectories by reward or n_steps.")
    ] = "created_at",
    ascending: Annotated[bool, typer.Option("--ascending", help="Sort in ascending order.")] = False,
    rewards: Annotated[
        str | None, typer.Option("--rewards", metavar="NAME", help="With --run: the totals in this reward set too.")
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print only the IDs, one per line.")] = False,
    limit: Limit = 100,
    after: After = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """List trajectories, newest first."""
    from ...store import queries

    refuse_together({"--ids": ids, "--json": as_json}, {"--ids": ids, "--rewards": rewards is not None})
    filters: dict[str, Any] = {"run": run, "env": env, "policy": policy, "success": success}
    filters |= {"status": status and status.value, "purpose": purpose and purpose.value}
    with open_store(store) as database, database.read() as conn:
        if run is not None:
            queries.find_run(conn, run)
        rows = queries.list_trajectories(conn, sort=sort, descending=not ascending, limit=limit, after=after, **filters)
        totals: dict[str, float | None] = {}
        if rewards is not None:
            if run is None:
                raise RunMissing("`--rewards` needs `--run`: a reward set belongs to one run")
            stored = queries.reward_set(conn, run, rewards)
            entries = queries.rewards_of(conn, [row.id for row in rows], stored.no)
            totals = {row.id: _total(entries.get(row.id)) for row in rows}
    if as_json:
        print_json([{**jsonable(row), "total": totals[row.id]} for row in rows] if totals else rows)
        return
    if ids:
        for row in rows:
            echo(row.id)
        return
    now = datetime.now(UTC)
    columns = (
        "id",
        "status",
        "success",
        "reward",
        *([rewards] if rewards else []),
        "turns",
        "tokens",
        "age",
    )
    shown = [
        (
            *(row.id, row.status, row.success, row.reward, *([totals[row.id]] if rewards else [])),
            *(row.n_steps, row.n_tokens, ago(row.created_at, now)),
        )
        for row in rows
    ]
    empty = empty_message("trajectory", {**filters, "after": after})
    print_table(columns, shown, empty=empty, required=4)


@app.command()
def branch(
    trajectory: Annotated[str, typer.Argument(metavar="ID", help="ID of the trajectory.")],
    at: Annotated[
        int, typer.Option("--at", min=1, max=MAX_COUNT, help="Step of the first new action; those before are repeated.")
    ],
    policy: Annotated[
        str, typer.Option("--policy", help="random, oracle, RUN or RUN@UPDATE, a model or a server URL.")
    ] = "random",
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=10_000, help="Number of new episodes.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random policy.")] = 0,
    turns: Annotated[
        int | None,
        typer.Option("--turns", min=1, max=MAX_COUNT, help="Maximum turns. Default: those of the trajectory."),
    ] = None,
    temperature: Temperature = None,
    api_key_env: ApiKeyEnv = "",
    sandbox: SandboxOptions = None,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Play new episodes from a step of a stored trajectory, and store them with a link to it; exit 1 if all failed.

    The environment must be deterministic: the actions before the step are executed again and compared.
    """
    from ...trainer.evaluation.branch import branch as play

    with open_store(store) as database:
        result = play(
            database,
            trajectory,
            at,
            policy,
            episodes=episodes,
            seed=seed,
            turns=turns,
            temperature=temperature,
            sandboxes=read_options(sandbox, "--sandbox"),
            api_key_env=api_key_env,
        )
    failed = [episode for episode in result.episodes if episode.status not in SCORED_STATUSES]
    if as_json:
        print_json(result.json())
    else:
        rows = [
            (episode.trajectory, episode.status.value, episode.success, episode.reward, episode.turns)
            for episode in result.episodes
        ]
        print_table(("id", "status", "success", "reward", "turns"), rows, empty="no episode")
    if failed:
        reason = (failed[-1].error.strip() or "no reason given").splitlines()[-1]
        typer.echo(f"{len(failed)} of {len(result.episodes)} episodes failed: {sanitize(reason)}", err=True)
    if len(failed) == len(result.episodes):
        raise typer.Exit(1)


def _total(shaped: "Rewards | None") -> float | None:
    """Return the return in a reward set; None without rewards there."""
    return None if shaped is None or shaped.rewards is None else float(sum(shaped.rewards))
