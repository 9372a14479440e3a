"""``turnwise trajectories show``: one episode, turn by turn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...records import Source, Step, Trajectory
from ...store.project import DEFAULT_STORE
from ..options import Imports, Json, Store, open_store, refuse_together
from ..terminal.output import GUTTER, console, jsonable, print_fields, print_json, print_text
from ..terminal.sanitize import one_line, sanitize
from .lineage import print_tokens

if TYPE_CHECKING:
    from ...store.database import Database
    from ...store.operations import Rewards
    from ...store.queries.lineage import TrajectoryUse
    from ...trainer.learner.provenance.token_rows import TrajectoryTokens
    from ..episodes import EpisodeFacts, TurnFacts

BRIEF_CHARS = 100
"""Length of an observation and of an action with ``--brief``."""
INDENT = "   "
MARGIN = INDENT + GUTTER


class ImagesNotWritten(TurnwiseError):
    """The images cannot be written to the folder of ``--images``."""


class NoTurn(TurnwiseError):
    """The trajectory has no turn of this number."""


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
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Show one trajectory, turn by turn: observation, action, reward and its parts, advantage, versions and time.

    It begins with the text that the policy read before the first observation, its system prompt.
    """
    from ...agents.tokens.token_texts import tokenizer_of_run
    from ...store import queries
    from ..episodes import load_facts

    refuse_together({"--brief": brief, "--json": as_json}, {"--brief": brief, "--tokens": tokens})
    with open_store(store) as database:
        found = queries.load_trajectory(database, trajectory)
        if tokens:
            tokenizer_of_run(database, found.run)  # fails without the package that decodes tokens
        facts = load_facts(database, found, rewards, with_update=tokens)
        last = queries.final_observation(database, trajectory)
        with database.read() as conn:
            group = queries.group_of(conn, trajectory)
        steps = _chosen(found, turn)
        written = _write_images(database, found, steps, images, whole=turn is None) if images else None
    if as_json:
        whole = replace(found, steps=steps, messages=found.messages if tokens else ())
        parts: dict[str, object] = {"task": group.task, "horizon": group.horizon, "final_observation": last}
        parts |= {"rewards": facts.rewards, "training": facts.training, "uses": facts.uses, "system": facts.system}
        parts["turns"] = {step.index: facts.turns[step.index] for step in steps}
        if tokens:
            parts["tokens"] = _of_turn(facts.tokens, turn)
        print_json({**jsonable(whole), **jsonable(parts)})
    else:
        _print(found, facts, last, steps, turn, brief=brief, tokens=tokens)
    if written is not None:
        folder = sanitize(str(images))
        replay = f"turnwise trajectories replay {sanitize(trajectory)} --images {folder}"
        none = f"the trajectory has no stored image; `{replay}` writes the screenshots of a re-execution, if its "
        message = f"images written to {folder}: {written}" if written else f"{none}environment has any"
        console(stderr=True).print(message, soft_wrap=True)


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


def _print(
    found: Trajectory,
    facts: "EpisodeFacts",
    last: str | None,
    steps: Sequence[Step],
    turn: int | None,
    *,
    brief: bool,
    tokens: bool,
) -> None:
    if turn is None:
        _print_head(found, facts, brief=brief, tokens=tokens)
    shaped = facts.rewards.rewards if facts.rewards is not None else None
    by_turn = {one.turn: one.tokens for one in facts.tokens.turns} if tokens else {}
    for number, step in enumerate(steps):
        if not brief and (number or turn is None):
            console().print()
        _print_turn(step, facts.turns[step.index], shaped, brief=brief)
        if tokens:
            print_tokens([asdict(row) for row in by_turn.get(step.index, ())], empty=f"{INDENT}no token is stored")
    if turn is not None:
        return
    if None in by_turn:
        console().print()
        print_tokens([asdict(row) for row in by_turn[None]], empty="")
    if last is not None:
        if not brief:
            console().print()
        print_text(f"{INDENT}{_text(last, brief=brief)}", MARGIN)
        _print_images(_pictures(found.final_images, found.final_screenshot))


def _print_head(found: Trajectory, facts: "EpisodeFacts", *, brief: bool, tokens: bool) -> None:
    from ...agents.rollout.progress import TARGETS
    from ..episodes import part_totals

    task, options = facts.task, "".join(f", {name} {value}" for name, value in facts.task.options.items())
    fields = {"id": found.id, "run": found.run, "group": f"{found.group}, member {found.member}"}
    fields["attempt"] = str(found.attempt + 1) if found.attempt else ""
    if found.branched_from is not None:
        fields["branch"] = f"of {found.branched_from}, from step {found.branched_at}"
    fields |= {"environment": task.env_id, "seed": f"{task.seed} ({task.split}){options}"}
    fields |= {"policy": found.policy, "source": "" if found.source is Source.POLICY else found.source.value}
    fields |= {"status": found.status.value, "success": str(found.success), "reward": f"{found.reward:g}"}
    fields["reward parts"] = _parts(part_totals(found.steps))
    fields |= {"time": _time(found.steps), "trained on": "; ".join(map(_use, facts.uses)) or facts.training}
    fields["token values"] = facts.tokens.note if tokens else ""
    # The environment chooses the names of its extras; the prefix keeps them apart from turnwise's own lines.
    fields |= {f"extras.{name}": str(value) for name, value in found.extras.items() if name != TARGETS}
    fields |= _reward_fields(facts.rewards) if facts.rewards is not None else {}
    fields |= {"error": found.error, "stop_reason": found.stop_reason}
    fields["system"] = _text(facts.system, brief=brief)
    print_fields({name: text for name, text in fields.items() if text})
    if brief:
        console().print()


def _use(use: "TrajectoryUse") -> str:
    """Return an update that trained on the trajectory, on one line."""
    name = f"update {use.update} of run {use.run}" + (" (abandoned)" if use.abandoned else "")
    return f"{name}: {use.tokens_trained} tokens, advantage {use.mean_advantage:+.3g}, staleness {use.max_staleness}"


def _time(steps: Sequence[Step]) -> str:
    model, env = (sum(times) / 1000 for times in ((step.model_ms for step in steps), (step.env_ms for step in steps)))
    ends = [step.created_at for step in steps if step.created_at is not None]
    until = f", until {ends[-1]:%Y-%m-%d %H:%M:%S} UTC" if ends else ""
    return f"{model:.3g} s of sampling, {env:.3g} s of the environment{until}" if model or env else ""


def _print_turn(step: Step, facts: "TurnFacts", shaped: Sequence[float] | None, *, brief: bool) -> None:
    print_text(f"{step.index}  {_text(step.observation, brief=brief)}", MARGIN)
    if not brief:
        _print_images(_pictures(step.images, step.screenshot))
        if facts.sampled_text:
            print_text(f"{INDENT}sampled: {facts.sampled_text}", MARGIN)
    invalid = "  (the environment failed)" if step.failed else "" if step.action_valid else "  (invalid)"
    parts = f"  ({_parts(step.reward_parts)})" if step.reward_parts else ""
    end = f"{step.reward:+g}{parts}{_change(step, shaped)}{invalid}"
    print_text(f"{INDENT}> {_text(step.action, brief=brief)}  {end}", MARGIN)
    if not brief and (values := "  ".join(_values(step, facts))):
        print_text(f"{INDENT}{values}", MARGIN)


def _values(step: Step, facts: "TurnFacts") -> Iterator[str]:
    """Yield what is known of a turn besides its texts and rewards."""
    if facts.advantage is not None:
        yield f"advantage {facts.advantage:+.3g}"
    if facts.versions:
        yield f"version {', '.join(map(str, facts.versions))}"
    if step.model_ms or step.env_ms:
        yield f"{step.model_ms:.0f} + {step.env_ms:.0f} ms"
    if step.state_key:
        yield f"state {one_line(step.state_key, BRIEF_CHARS)}"
    if step.cut_by:
        yield f"cut by {step.cut_by.value}"
    if step.agent:
        yield f"agent {one_line(step.agent, BRIEF_CHARS)}"


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
