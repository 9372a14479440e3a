"""``turnwise trajectories show``: one episode, turn by turn."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...records import Step, Task, Trajectory
from ...store.project import DEFAULT_STORE
from ..options import Json, Store, open_store, refuse_together
from ..terminal.output import GUTTER, console, jsonable, print_fields, print_json, print_text
from ..terminal.sanitize import one_line, sanitize
from .lineage import print_tokens

if TYPE_CHECKING:
    from ...store.database import Database
    from ...store.operations import Rewards
    from ...trainer.run.retraining.token_rows import TrajectoryTokens

BRIEF_CHARS = 100
"""Length of an observation and of an action with ``--brief``."""
INDENT = "   "
MARGIN = INDENT + GUTTER


class ImagesNotWritten(TurnwiseError):
    """The images cannot be written to the folder of ``--images``."""


class NoTurn(TurnwiseError):
    """The trajectory has no turn of this number."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is printed of a trajectory."""

    trajectory: Trajectory
    task: Task
    training: str
    """Whether it was trained on, or why not."""
    system: str
    """The text before the first observation, as the policy read it; empty if there is none or no tokenizer."""
    last: str | None
    """The text of the final observation."""
    rewards: "Rewards | None"
    tokens: "TrajectoryTokens | None"


def show(
    trajectory: Annotated[str, typer.Argument(metavar="ID", help="ID of the trajectory.")],
    turn: Annotated[int | None, typer.Option("--turn", metavar="N", min=0, help="Only turn N, counted from 0.")] = None,
    brief: Annotated[bool, typer.Option("--brief", help="One line per observation and per action.")] = False,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            help="Every token: text, mask, log-probability, version, and its advantage, importance weight, mismatch, "
            "entropy and staleness in the update that trained on it.",
        ),
    ] = False,
    images: Annotated[
        Path | None, typer.Option("--images", metavar="FOLDER", help="Write the stored images to this folder.")
    ] = None,
    rewards: Annotated[
        str | None, typer.Option("--rewards", metavar="NAME", help="The rewards of this reward set of its run.")
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show one trajectory, turn by turn: observation, action, reward and its parts, and the shaped reward."""
    from ...store import queries

    refuse_together({"--brief": brief, "--json": as_json}, {"--brief": brief, "--tokens": tokens})
    with open_store(store) as database:
        shown = _load(database, trajectory, rewards, tokens=tokens)
        with database.read() as conn:
            group = queries.group_of(conn, trajectory)
        steps = _chosen(shown.trajectory, turn)
        written = _write_images(database, shown.trajectory, steps, images, whole=turn is None) if images else None
    if as_json:
        whole = replace(shown.trajectory, steps=steps, messages=shown.trajectory.messages if tokens else ())
        parts: dict[str, object] = {"task": group.task, "horizon": group.horizon, "final_observation": shown.last}
        parts |= {"rewards": shown.rewards, "training": shown.training, "system": shown.system}
        if shown.tokens is not None:
            parts["tokens"] = _of_turn(shown.tokens, turn)
        print_json({**jsonable(whole), **parts})
    else:
        _print(shown, steps, turn, brief=brief)
    if written is not None:
        folder = sanitize(str(images))
        replay = f"turnwise trajectories replay {sanitize(trajectory)} --images {folder}"
        none = f"the trajectory has no stored image; `{replay}` writes the screenshots of a re-execution, if its "
        message = f"images written to {folder}: {written}" if written else f"{none}environment has any"
        console(stderr=True).print(message, soft_wrap=True)


def _load(database: "Database", name: str, rewards: str | None, *, tokens: bool) -> _Shown:
    from ...agents.tokens.token_texts import system_text, tokenizer_of_run
    from ...store import queries
    from ...store.schema import OWN

    found = queries.load_trajectory(database, name)
    with database.read() as conn:
        group = queries.group_row_of(conn, name)
        training = queries.training_of(
            group, queries.updates_with(conn, name), queries.find_run(conn, found.run).status
        )
        chosen = OWN if rewards is None else queries.reward_set(conn, found.run, rewards).no
        shaped = queries.rewards_of(conn, [name], chosen).get(name)
        task = queries.group_of(conn, name).task
    try:
        texts = tokenizer_of_run(database, found.run)
    except ModuleNotFoundError:  # the core shows the rest without it
        if tokens:
            raise
        texts = None
    values = None
    if tokens:
        from ...trainer.run.retraining.token_rows import trajectory_tokens

        values = trajectory_tokens(database, found, texts)
    last = queries.final_observation(database, name)
    return _Shown(found, task, training, system_text(texts, found), last, shaped, values)


def _chosen(found: Trajectory, turn: int | None) -> Sequence[Step]:
    """Return all turns, or turn ``turn``. Raises NoTurn."""
    if turn is None:
        return found.steps
    if turn >= len(found.steps):
        has = f"turns 0 to {len(found.steps) - 1}" if found.steps else "no turn"
        raise NoTurn(f"`--turn {turn}`: trajectory {found.id} has {has}")
    return found.steps[turn : turn + 1]


def _of_turn(tokens: "TrajectoryTokens", turn: int | None) -> "TrajectoryTokens":
    return tokens if turn is None else replace(tokens, turns=[one for one in tokens.turns if one.turn == turn])


def _print(shown: _Shown, steps: Sequence[Step], turn: int | None, *, brief: bool) -> None:
    if turn is None:
        _print_head(shown, brief=brief)
    turns = shown.rewards.rewards if shown.rewards is not None else None
    by_turn = {} if shown.tokens is None else {one.turn: one.tokens for one in shown.tokens.turns}
    for number, step in enumerate(steps):
        if not brief and (number or turn is None):
            console().print()
        _print_turn(step, turns, brief=brief)
        if shown.tokens is not None:
            print_tokens([asdict(row) for row in by_turn.get(step.index, ())], empty=f"{INDENT}no token is stored")
    if turn is not None:
        return
    if None in by_turn:
        console().print()
        print_tokens([asdict(row) for row in by_turn[None]], empty="")
    if shown.last is not None:
        if not brief:
            console().print()
        print_text(f"{INDENT}{_text(shown.last, brief=brief)}", MARGIN)
        _print_images(_pictures(shown.trajectory.final_images, shown.trajectory.final_screenshot))


def _print_head(shown: _Shown, *, brief: bool) -> None:
    found, shaped = shown.trajectory, shown.rewards
    fields = {"id": found.id, "run": found.run, "group": f"{found.group}, member {found.member}"}
    if found.branched_from is not None:
        fields["branch"] = f"of {found.branched_from}, from step {found.branched_at}"
    fields |= {"environment": shown.task.env_id, "seed": f"{shown.task.seed} ({shown.task.split})"}
    fields |= {"status": found.status.value, "success": str(found.success), "reward": f"{found.reward:g}"}
    fields["reward parts"] = _parts(part_totals(found.steps))
    fields["trained on"] = shown.training
    if shown.tokens is not None:
        fields["token values"] = shown.tokens.note
    # The environment chooses the names of its extras; the prefix keeps them apart from turnwise's own lines.
    fields |= {f"extras.{name}": str(value) for name, value in found.extras.items()}
    fields |= _reward_fields(shaped) if shaped is not None else {}
    fields |= {"error": found.error, "stop_reason": found.stop_reason}
    fields["system"] = _text(shown.system.strip(), brief=brief)
    print_fields({name: text for name, text in fields.items() if text})
    if brief:
        console().print()


def _print_turn(step: Step, shaped: Sequence[float] | None, *, brief: bool) -> None:
    print_text(f"{step.index}  {_text(step.observation, brief=brief)}", MARGIN)
    if not brief:
        _print_images(_pictures(step.images, step.screenshot))
    invalid = "  (the environment failed)" if step.failed else "" if step.action_valid else "  (invalid)"
    parts = f"  ({_parts(step.reward_parts)})" if step.reward_parts else ""
    end = f"{step.reward:+g}{parts}{_change(step, shaped)}{invalid}"
    print_text(f"{INDENT}> {_text(step.action, brief=brief)}  {end}", MARGIN)


def part_totals(steps: Sequence[Step]) -> dict[str, float]:
    """Return the sum of each part of the reward over the turns of an episode."""
    totals: dict[str, float] = {}
    for step in steps:
        for name, value in step.reward_parts.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


def _parts(parts: Mapping[str, float]) -> str:
    """Return the parts of a reward on one line; the environment chooses their names."""
    return ", ".join(f"{one_line(name, 40)} {value:+g}" for name, value in parts.items())


def _text(text: str, *, brief: bool) -> str:
    return one_line(text, BRIEF_CHARS) if brief else text


def _pictures(images: Sequence[str], screenshot: str) -> Sequence[str]:
    """Return the hashes of the images that the policy read, and of the screenshot that the run kept."""
    return [*images, screenshot] if screenshot else images


def _print_images(images: Sequence[str]) -> None:
    for image in images:
        console().print(f"{INDENT}[screenshot {image[:6]}…]")


def _reward_fields(shaped: "Rewards") -> dict[str, str]:
    """Return the shaped return and the verdicts; the prefix keeps the names in a verdict apart from other lines."""
    total = "none" if shaped.rewards is None else f"{sum(shaped.rewards):g}"
    verdicts = {
        f"verdict.{index}.{name}": str(value)
        for index, verdict in enumerate(shaped.verdicts)
        for name, value in verdict.items()
    }
    return {"shaped": total, **verdicts}


def _change(step: Step, shaped: Sequence[float] | None) -> str:
    """Return the shaped reward of a turn where it differs from the environment's."""
    return "" if shaped is None or shaped[step.index] == step.reward else f"  (shaped {shaped[step.index]:+g})"


def _write_images(database: "Database", found: Trajectory, steps: Sequence[Step], folder: Path, *, whole: bool) -> int:
    """Write the images of ``steps``, and of the end if they are the ``whole`` trajectory; return how many.

    The files are named by turn, hash and format.
    """
    from ...store.exchange.images import SUFFIXES, image_type

    names = [(step.index, image) for step in steps for image in _pictures(step.images, step.screenshot)]
    if whole:
        names += [(len(found.steps), image) for image in _pictures(found.final_images, found.final_screenshot)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with database.read() as conn:
            for turn, image in names:
                content = database.blobs.get(conn, image)
                (folder / f"{turn:03}-{image[:16]}{SUFFIXES.get(image_type(content), '.bin')}").write_bytes(content)
    except OSError as error:
        raise ImagesNotWritten(f"--images {folder}: {error}") from error
    return len(names)
