"""``turnwise db``: the schema, the integrity and the size of a store."""

from typing import Annotated

import typer

from ...store.project import DEFAULT_STORE
from ..options import MAX_COUNT, Json, Store, open_store
from ..terminal.output import Progress, console, print_fields, print_json, print_text
from ..terminal.sanitize import one_line
from ..terminal.tables import print_table

app = typer.Typer(help="Check, upgrade, measure and shrink a store.", no_args_is_help=True)

FINDINGS_MAX = 1000
"""Findings that ``check`` prints; it counts the others."""


@app.command()
def upgrade(
    backup: Annotated[
        bool, typer.Option("--backup/--no-backup", help="Copy an SQLite database next to it before the upgrade.")
    ] = True,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Upgrade the database to this program's revision; create the database if it does not exist."""
    from ...store import database
    from ...store.maintenance.backup import back_up_before_upgrade

    progress = Progress()
    copy = back_up_before_upgrade(store, progress) if backup else None
    progress.clear()
    if copy is not None:
        console(stderr=True).print(f"backup: {one_line(str(copy), None)}", soft_wrap=True)
    database.upgrade(store)
    _show(store, as_json)


@app.command()
def current(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Show the revisions of the database and of this program; exit 1 if they differ."""
    if not _show(store, as_json):
        raise typer.Exit(1)


@app.command()
def check(
    content: Annotated[
        bool, typer.Option("--content", help="Also read all content and compare it with its hashes.")
    ] = False,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Find turns, episodes, rewards and batches that were altered or deleted; exit 1 if there are any."""
    from ...store.maintenance.integrity import check_store

    count = 0
    shown = []
    progress = Progress()
    with open_store(store) as database:
        for finding in check_store(database, content=content, progress=progress):
            count += 1
            if count > FINDINGS_MAX:
                continue
            shown.append(finding)
            if not as_json:
                progress.clear()
                print_text(str(finding))
    progress.clear()
    if as_json:
        print_json({"findings": count, "shown": shown})
    elif count == 0:
        console().print("no findings" if content else "no findings (content was not read: add --content)")
    else:
        console().print(f"{count:,} findings" + (f", {FINDINGS_MAX:,} shown" if count > FINDINGS_MAX else ""))
    if count:
        raise typer.Exit(1)


@app.command()
def gc(
    keep_versions: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=MAX_COUNT, help="Prune trajectories that only versions before the newest N sampled."
        ),
    ] = None,
    keep_successes: Annotated[
        bool,
        typer.Option(
            "--keep-successes/--prune-successes", help="Keep successful trajectories (default), or prune them."
        ),
    ] = True,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Prune the oldest trajectories above this size: 500MiB, 1GiB.")
    ] = None,
    screenshot_interval: Annotated[
        int,
        typer.Option(
            metavar="K", min=0, max=MAX_COUNT, help="Of a pruned trajectory, keep the screenshots of every Kth turn."
        ),
    ] = 0,
    grace_s: Annotated[
        float, typer.Option(metavar="SECONDS", help="Keep content without a reference this long after its write.")
    ] = 3600.0,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Give free pages back to the disk; writers wait meanwhile.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the counts and change nothing.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Delete content that nothing refers to and, with a policy, the content of old trajectories.

    A pruned trajectory keeps its head, actions and rewards. Exit 1 if the store needs more than --max-size.
    """
    from ...store.maintenance.collect import collect
    from ...store.maintenance.policy import read_policy

    policy = read_policy(
        keep_versions=keep_versions,
        keep_successes=keep_successes,
        screenshot_interval=screenshot_interval,
        max_size=max_size,
        grace_s=grace_s,
    )
    progress = Progress()
    with open_store(store) as database:
        found = collect(database, policy, dry_run=dry_run, shrink=vacuum, progress=progress)
    progress.clear()
    if as_json:
        print_json(found)
    else:
        would = "would be " if dry_run else ""
        print_fields(
            {
                f"trajectories {would}pruned": found.pruned,
                f"trajectories whose turns {would}deleted": found.turns_deleted or None,
                f"blobs {would}deleted": found.swept.blobs,
                f"files {would}deleted": found.swept.files,
                "left because they were altered": ", ".join(found.altered[:20]) or None,
                "size": f"{_size(found.before.total)} before, {_size(found.after.total)} now",
                "free pages": f"{_size(found.after.free)}" + ("" if vacuum else ": later writes fill them"),
            }
        )
    if found.is_over:
        console(stderr=True).print(
            f"the store needs {_size(found.after.used)}, more than --max-size {max_size}: the policy or the queue "
            "keeps what is left; lower --keep-versions or raise --max-size",
            soft_wrap=True,
        )
    if found.is_over or found.altered:
        raise typer.Exit(1)


@app.command()
def stats(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Show rows and bytes per table and per step, content by media type, and the age of the trajectories."""
    from ...store.maintenance.sizes import store_stats

    with open_store(store) as database:
        found = store_stats(database)
    if as_json:
        print_json(found)
        return
    per_step = None if found.bytes_per_step is None else f"{found.bytes_per_step:,.0f} bytes"
    print_fields(
        {
            "database": f"{_size(found.size.database)}, of which {_size(found.size.free)} free",
            "files": _size(found.size.files),
            "steps": f"{found.steps:,}",
            "per step": per_step,
            "pruned trajectories": f"{found.pruned:,}",
            "oldest trajectory": found.oldest and found.oldest.isoformat(timespec="seconds"),
            "newest trajectory": found.newest and found.newest.isoformat(timespec="seconds"),
        }
    )
    console().print()
    largest = sorted(found.tables.items(), key=lambda one: -one[1].bytes)
    rows = [(name, f"{one.rows:,}" if one.rows else "", _size(one.bytes)) for name, one in largest]
    print_table(("table", "rows", "size"), rows, empty="no tables")
    console().print()
    kinds = [(blob.media_type, blob.location, f"{blob.count:,}", _size(blob.bytes)) for blob in found.blobs]
    print_table(("content", "location", "blobs", "size"), kinds, empty="no content outside of the rows")


def _show(store: str, as_json: bool) -> bool:
    from ...store import database

    revision, head = database.revisions(store)
    if as_json:
        print_json({"revision": revision, "head": head})
    else:
        print_fields({"revision": revision or "none (an empty database)", "program": head})
    return revision == head


def _size(count: int) -> str:
    """Return bytes as people read them: ``1.2 GiB``."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:,.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
