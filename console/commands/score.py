"""``turnwise runs score``: another reward of the stored trajectories of a run, next to the old one."""

import re
from collections.abc import Mapping
from inspect import isclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import TurnwiseError, reason, suggestion
from ...store.project import DEFAULT_STORE
from ..options import Json, Run, Store, open_store
from ..terminal.output import Estimate, print_fields, print_json
from ..terminal.sanitize import one_line
from .envs import read_options

if TYPE_CHECKING:
    from ...trainer.algorithms.rewards.base import RewardShaper

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
REWARD = (
    "A reward by its file name (`turn_penalty`, `llm_judge`), `pkg.module:Class`, or `pkg.module:function`: a checker."
)


class InvalidReward(TurnwiseError):
    """The reward does not exist, or an option does not fit."""


def score(
    run: Run,
    rewards: Annotated[str, typer.Option("--rewards", metavar="NAME", help="Name of the reward set.")],
    reward: Annotated[str, typer.Option("--reward", metavar="COMPONENT", help=REWARD)],
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of the reward; repeatable.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Groups scored at the same time.")] = 16,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds per group.")] = 300.0,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Score the stored trajectories of RUN with another reward, and keep the scores as a named reward set.

    The old rewards stay as they are. The same command again scores only the trajectories without a score; exit 1 if
    some are left.
    """
    from ...trainer.rollout.rescoring import score_stored

    component = build_reward(rewards, reward, read_options(option))

    with open_store(store) as database:
        report = score_stored(
            database,
            run,
            rewards,
            component,
            max_concurrent_groups=concurrency,
            timeout_s=timeout,
            on_progress=Estimate("groups scored"),
        )
    if as_json:
        print_json(report.json())
    else:
        print_fields({**report.json(), "last_error": one_line(report.last_error)})
    if report.unscored:
        raise typer.Exit(1)


def build_reward(name: str, reward: str, options: dict[str, Any]) -> "RewardShaper":
    """Return the reward shaper that ``--reward`` and the options select; a function becomes a checker.

    Raises:
        InvalidReward: the name of the set is not valid, or the reward or an option is wrong.
    """
    from pydantic import ValidationError

    from ...base.process.user_code import imported
    from ...trainer.algorithms.rewards.base import RewardShaper

    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidReward(
            f"--rewards {name}: use up to 80 letters, digits, `.`, `_` and `-`, and begin with one of the first two"
        )
    choice: dict[str, Any] = {"name": reward, **options}
    try:
        if ":" in reward and not isclass(imported(reward)):
            choice = {"name": "checker", "function": reward, **options}
        return RewardShaper.build(choice)
    except ValidationError as error:
        lines = [_wrong_option(item, str(choice["name"])) for item in error.errors()]
        raise InvalidReward(f"--reward {reward}: {'; '.join(lines)}") from error
    except ValueError as error:
        raise InvalidReward(f"--reward {reward}: {error}") from error


def _wrong_option(item: Mapping[str, Any], name: str) -> str:
    """Return the option that an error of the validation names, and why it is wrong."""
    from ...trainer.algorithms.component import NAME_ERROR
    from ...trainer.algorithms.registry import component_class
    from ...trainer.algorithms.rewards.base import RewardShaper

    path = ".".join(map(str, item["loc"]))
    why = reason(item)
    if item["type"] == "extra_forbidden":
        base: Any = RewardShaper
        why += suggestion(path, list(component_class(base, name).model_fields))
    return f"`--option {path}`: {why}" if path and item["type"] != NAME_ERROR else why
