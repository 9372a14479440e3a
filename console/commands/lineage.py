"""``lineage``: from an update of a run to the tokens that it trained on, and from a trajectory to its updates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from difflib import get_close_matches
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import TurnwiseError
from ...store.project import DEFAULT_STORE
from ..options import MAX_COUNT, Imports, Json, Run, Store, open_store
from ..terminal.output import console, print_fields, print_json, print_text
from ..terminal.sanitize import one_line, sanitize
from ..terminal.tables import print_table

if TYPE_CHECKING:
    from ...store.database import Database
    from ...store.queries.lineage import BatchMember, StoredUpdate, TrajectoryUse
    from ...trainer.learner.provenance.stored_batch import TrainedStep

NUMBERS = ("use", "tokens", "advantage", "staleness")
"""Columns that describe how an update used a trajectory."""


class NotInBatch(TurnwiseError):
    """The update did not train on the trajectory."""


def lineage_of_update(
    run: Run,
    number: Annotated[
        int, typer.Argument(metavar="UPDATE", min=1, max=MAX_COUNT, help="The number of the update, from 1.")
    ],
    trajectory: Annotated[
        str | None, typer.Option("--trajectory", metavar="ID", help="Only this trajectory, turn by turn.")
    ] = None,
    tokens: Annotated[
        bool,
        typer.Option("--tokens", help="Every trained token, with its text, log-probabilities, advantage and version."),
    ] = False,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show an update of the surviving history: the version it made, its batch, and the tokens it trained on."""
    from ...store import queries

    with open_store(store) as database:
        with database.read() as conn:
            found = queries.load_update(conn, run, number)
        members = [member for member in found.members if trajectory in (None, member.trajectory)]
        if not members and trajectory is not None:
            raise _not_in_batch(found, trajectory)
        steps = _steps(database, found, trajectory) if tokens or trajectory is not None else {}
        text = _texts(database, found) if tokens else None
    if as_json:
        print_json(_update_json(found, members, steps, text))
        return
    _print_update(found)
    if not steps:
        _print_members(members)
    for member in members if steps else []:
        _print_members([member])
        _print_steps(steps[member.trajectory], text)


def lineage_of_trajectory(
    name: Annotated[str, typer.Argument(metavar="ID", help="ID of the trajectory.")],
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show where a trajectory came from, and the updates that trained on it."""
    from ...store import queries

    with open_store(store) as database:
        with database.read() as conn:
            uses = queries.updates_with(conn, name)
            group = queries.group_of(conn, name)
            row = queries.group_row_of(conn, name)
            training = queries.training_of(row, uses, queries.find_run(conn, row.run_id).status)
        found = queries.load_trajectory(database, name)
        with database.read() as conn:
            history = queries.versions(conn, found.run)
    versions = sorted({int(version) for message in found.messages for version in message.versions if version >= 0})
    sampled_by = {str(version): history[version].update if version in history else None for version in versions}
    facts = {
        "trajectory": found.id,
        "run": found.run,
        "group": found.group,
        "group_state": group.state.value,
        "training": training,
        "environment": group.task.env_id,
        "task": group.task.id,
        "status": found.status.value,
        "success": found.success,
        "reward": found.reward,
        "turns": len(found.steps),
        "versions": sampled_by,
        "branched_from": found.branched_from,
        "sandbox": found.extras.get("sandbox"),
        "env_package": found.extras.get("env_package"),
    }
    if as_json:
        print_json({**facts, "updates": uses})
        return
    shown = {name.replace("_", " "): value for name, value in facts.items() if name != "versions"}
    shown["sampled by"] = ", ".join(f"version {one} (update {at})" for one, at in sampled_by.items())
    print_fields(shown)
    console().print()
    rows = [
        (use.run, use.update, use.version, *_numbers(use), "abandoned by a resume" if use.abandoned else "")
        for use in uses
    ]
    columns = ("run", "update", "version", *NUMBERS, "")
    print_table(columns, rows, empty=training)


def _not_in_batch(found: "StoredUpdate", wanted: str) -> NotInBatch:
    known = [member.trajectory for member in found.members]
    near = get_close_matches(wanted, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return NotInBatch(
        f"update {found.update} of run {found.run} did not train on trajectory {wanted}{hint}; "
        f"`turnwise runs lineage {found.run} {found.update}` lists the {len(known)} that it trained on"
    )


def _steps(database: "Database", found: "StoredUpdate", only: str | None) -> "dict[str, list[TrainedStep]]":
    """Return the turns of each trajectory of the batch, or of the trajectory ``only``, with their trained tokens."""
    from ...trainer.learner.provenance.token_rows import trained_tokens

    return {
        name: steps for name, (_, steps) in trained_tokens(database, found, None if only is None else [only]).items()
    }


def _update_json(
    found: "StoredUpdate",
    members: "Sequence[BatchMember]",
    steps: "dict[str, list[TrainedStep]]",
    text: Callable[[int], str | None] | None,
) -> dict[str, Any]:
    whole = {field.name: getattr(found, field.name) for field in fields(found) if field.name != "members"}
    shown: list[dict[str, Any]] = []
    for member in members:
        row = {field.name: getattr(member, field.name) for field in fields(member) if field.name != "detail"}
        if member.trajectory in steps:
            turns = steps[member.trajectory]
            row["steps"] = [_summary(turn) | ({"tokens": _tokens(turn, text)} if text else {}) for turn in turns]
        shown.append(row)
    return {**whole, "members": shown}


def _summary(step: "TrainedStep") -> dict[str, Any]:
    """Return one turn with the means over its trained tokens."""
    trained = [token for token in step.tokens if token.weight]
    return {
        "index": step.index,
        "action": step.action,
        "reward": step.reward,
        "tokens_trained": len(trained),
        "advantage": _mean([one.advantage for one in trained]),
        "sampled_logprob": _mean([one.sampled_logprob for one in trained]),
        "trained_logprob": _mean([one.trained_logprob for one in trained]),
        "staleness": max((one.staleness or 0 for one in trained), default=None),
        "versions": sorted({one.version for one in trained if one.version is not None}),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _print_update(found: "StoredUpdate") -> None:
    made = f"{found.version}, made from {found.parent}"
    reused = sum(not group.fresh for group in found.groups)
    recipe = found.recipe or {}
    print_fields(
        {
            "run": found.run,
            "update": found.update,
            "version": made,
            "weights": found.weights_hash,
            "checkpoint": found.checkpoint,
            "learning rate": found.metrics.get("learning_rate"),
            "loss": found.metrics.get("loss"),
            "computed by": recipe.get("numerics"),
            "groups": f"{len(found.groups)} ({reused} reused)" if reused else len(found.groups),
            "trajectories": len(found.members),
            "tokens": sum(member.tokens_trained for member in found.members),
        }
    )


def _print_members(members: "Sequence[BatchMember]") -> None:
    columns = ("trajectory", "group", "status", "reward", *NUMBERS, "versions", "sandbox")
    rows = []
    for member in members:
        facts = member.trajectory, member.group, member.status, f"{member.reward:g}"
        image = (member.sandbox or {}).get("image", "")
        rows.append((*facts, *_numbers(member), _range(member.min_version, member.max_version), image))
    console().print()
    print_table(columns, rows, empty="the batch has no trajectory with a trained token")


def _numbers(one: "BatchMember | TrajectoryUse") -> tuple[object, ...]:
    """Return the cells of the columns ``NUMBERS``."""
    use = "fresh" if one.fresh else "reused"
    return use, one.tokens_trained, f"{one.mean_advantage:+.4g}", one.max_staleness


def _range(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    return str(low) if low == high else f"{low}-{high}"


def _print_steps(steps: "Sequence[TrainedStep]", text: Callable[[int], str | None] | None) -> None:
    for step in steps:
        row = _summary(step)
        console().print()
        print_text(f"{step.index}  > {one_line(step.action, 100)}  {step.reward:+g}")
        numbers = {name: row[name] for name in ("tokens_trained", "advantage", "sampled_logprob", "trained_logprob")}
        print_text("   " + _line({**numbers, "staleness": row["staleness"]}))
        if text is not None:
            print_tokens(_tokens(step, text), empty="   no token in the batch")


def _texts(database: "Database", found: "StoredUpdate") -> Callable[[int], str | None]:
    """Return the texts of the tokens of a batch by id; each is None if the tokenizer is not in the run's folder."""
    from ...agents.tokens.token_texts import tokenizer_of_run

    texts = tokenizer_of_run(database, found.run)
    return (lambda _: None) if texts is None else texts.text


def _tokens(step: "TrainedStep", text: Callable[[int], str | None]) -> list[dict[str, Any]]:
    return [{"id": token.id, "text": text(token.id), **asdict(token)} for token in step.tokens]


def print_tokens(tokens: Sequence[Mapping[str, Any]], *, empty: str) -> None:
    """Print a table of tokens. The text of each is quoted, with escapes for spaces and unprintable characters."""
    names = [name for name in tokens[0] if name not in ("sample", "position")] if tokens else []
    shown = [{**token, "text": None if token["text"] is None else repr(token["text"])} for token in tokens]
    rows = [[_cell(token[name]) for name in names] for token in shown]
    print_table([name.replace("_", " ") for name in names], rows, empty=empty)


def _line(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_cell(value)}" for name, value in values.items() if value is not None)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else sanitize(str(value))
