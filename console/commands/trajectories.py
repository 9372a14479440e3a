"""``turnwise trajectories``: the episodes of a store, one by one and turn by turn."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...records import Purpose, Status, Task, Trajectory
from ..opening import opened
from ..options import DEFAULT_STORE, After, Json, Limit, Store
from ..terminal.output import GUTTER, ago, console, jsonable, none_of, print_facts, print_json, print_table
from ..terminal.sanitize import clean, indented

if TYPE_CHECKING:
    from ...store.database import Database

app = typer.Typer(help="The episodes of a store.", no_args_is_help=True)


class NotWritten(TurnwiseError):
    """The images cannot be written where they were asked for."""


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
    from ...store import queries

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
    images: Annotated[
        Path | None, typer.Option("--images", metavar="FOLDER", help="Write the stored images there.")
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show one trajectory, turn by turn: what was seen, what was done, what that brought."""
    from ...store import queries

    with opened(store) as database:
        found = queries.load_trajectory(database, trajectory)
        last = queries.final_observation(database, trajectory)
        with database.read() as conn:
            group = queries.group_of(conn, trajectory)
        written = _write_images(database, found, images) if images else None
    if as_json:
        whole = found if tokens else replace(found, messages=())
        print_json({**jsonable(whole), "task": group.task, "horizon": group.horizon, "final_observation": last})
    else:
        _print_turns(found, group.task, last)
    if written is not None:
        said = f"images written to {clean(str(images))}: {written}" if written else "no image is stored in it"
        console(stderr=True).print(said, soft_wrap=True)


def _print_turns(found: Trajectory, task: Task, last: str | None) -> None:
    facts = {"id": found.id, "run": found.run, "group": f"{found.group}, member {found.member}"}
    facts |= {"environment": task.env_id, "seed": f"{task.seed} ({task.split})"}
    facts |= {"status": found.status.value, "success": str(found.success), "reward": f"{found.reward:g}"}
    # The environment names its extras: under a prefix, none of them reads as a line of turnwise's.
    facts |= {f"extras.{name}": str(value) for name, value in found.extras.items()}
    print_facts({**facts, **({"error": found.error} if found.error else {})})
    out = console()
    gutter = "   " + GUTTER
    for step in found.steps:
        out.print(f"\n{step.index}  {indented(step.observation, gutter)}", soft_wrap=True)
        for image in step.images:
            out.print(f"   [screenshot {image[:6]}…]")
        verdict = "" if step.action_valid else "  (invalid)"
        out.print(f"   > {indented(step.action, gutter)}  {step.reward:+g}{verdict}", soft_wrap=True)
    if last is not None:
        out.print(f"\n   {indented(last, gutter)}", soft_wrap=True)


def _write_images(database: "Database", found: Trajectory, folder: Path) -> int:
    """Write the images of each turn as files named by turn, hash and format; return how many."""
    names = [(step.index, image) for step in found.steps for image in step.images]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with database.read() as conn:
            for turn, image in names:
                content = database.blobs.get(conn, image)
                (folder / f"{turn:03}-{image[:16]}{_suffix(content)}").write_bytes(content)
    except OSError as error:
        raise NotWritten(f"--images {folder}: {error}") from error
    return len(names)


_FORMATS = {b"\x89PNG\r\n\x1a\n": ".png", b"\xff\xd8\xff": ".jpg", b"GIF8": ".gif"}


def _suffix(content: bytes) -> str:
    """Return the ending of an image file's name by its first bytes; ``.bin`` for no image format that is known here."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return ".webp"
    return next((suffix for magic, suffix in _FORMATS.items() if content.startswith(magic)), ".bin")
