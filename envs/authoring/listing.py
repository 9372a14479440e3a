"""``turnwise envs list``: a line on each registered environment. No sandbox is started.

The module of an environment is imported. The environment is made only if it lists its tasks and leases no sandbox.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import methodcaller

from ...base.process import event_loop
from ...records import SPLITS
from ..base import TurnEnv
from ..episode import EpisodeEnv
from ..errors import EnvError, UnknownEnvironment
from ..registry import all_ids, nearest, spec
from ..runner.env_thread import EnvThread
from ..sandboxes import declaration, declared
from ..tasks import env_package

TIMEOUT_S = 5.0
"""Timeout of each call of an environment."""
FAMILY_SIZE = 10
"""As many ids of one class are a family, such as the tasks of MiniWoB++."""
SHIPPED = "turnwise/"


@dataclass(frozen=True, slots=True)
class Listed:
    """A registered environment, or a family of them."""

    id: str
    description: str = ""
    """The first line of its docstring; empty without one."""
    package: str = ""
    """The installed package that provides it, with its version; empty for a module of no package."""
    sandboxed: bool = False
    image: str = ""
    """The shipped image of its sandboxes; empty if it needs none."""
    tasks: Mapping[str, int] | None = None
    """Number of tasks per split; None if every seed is a task, or if ``unknown`` states the reason."""
    unknown: str = ""
    """Why the rest is not known."""
    members: int = 1
    """Number of environments of a family."""


def listed(containing: str = "", *, unfold: bool = True) -> list[Listed]:
    """Return the environments whose ids contain a text in any case, the user's own first.

    ``unfold``: whether each member of a family has its own row.

    Raises:
        UnknownEnvironment: no id contains the text.
    """
    every = all_ids()
    ids = [env_id for env_id in every if containing.casefold() in env_id.casefold()]
    if not ids:
        close = nearest(containing)
        hint = f"; did you mean `{close}`?" if close else ""
        raise UnknownEnvironment(f"no environment has `{containing}` in its id{hint}")
    families = [list(members) for _, members in groupby(ids, _entry)]
    rows = [
        name
        for each in families
        for name in ([each] if not unfold and len(each) >= FAMILY_SIZE else [[one] for one in each])
    ]
    rows.sort(key=lambda ids: (ids[0].startswith(SHIPPED), ids))
    return event_loop.run(_rows(rows))


def _entry(env_id: str) -> str:
    entry = spec(env_id).entry_point
    return entry if isinstance(entry, str) else f"{env_id} {entry}"


async def _rows(families: Sequence[Sequence[str]]) -> list[Listed]:
    return [replace(await _row(ids[0]), id=_name(ids), members=len(ids)) for ids in families]


def _name(ids: Sequence[str]) -> str:
    """Return the pattern of the ids: ``turnwise/MiniWoB-*-v0``."""
    if len(ids) == 1:
        return ids[0]
    begin = _common(ids)
    return f"{begin}*{_common([env_id[: len(begin) - 1 : -1] for env_id in ids])[::-1]}"


def _common(texts: Sequence[str]) -> str:
    """Return the longest common beginning."""
    first, last = min(texts), max(texts)
    return first[
        : next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    ]


async def _row(env_id: str) -> Listed:
    try:
        declares = declaration(env_id)
    except Exception as error:  # noqa: BLE001 - code of a plugin
        return Listed(env_id, unknown=f"{type(error).__name__}: {error}")
    row = Listed(
        env_id,
        description=((declares.__doc__ or "").strip().partition("\n")[0]).replace("``", "`"),
        package=env_package(env_id),
        sandboxed=bool(declared(env_id, "sandboxed", TurnEnv.sandboxed)),
        image=str(declared(env_id, "sandbox_image", TurnEnv.sandbox_image)),
    )
    lists = getattr(declares, "tasks", TurnEnv.tasks)
    if (
        isinstance(declares, type)
        and lists in (TurnEnv.tasks, EpisodeEnv.tasks)
        and "pool_size" not in spec(env_id).kwargs
    ):
        return row
    if row.sandboxed:
        return replace(row, unknown="it leases a sandbox")
    try:
        return replace(row, tasks=await _tasks(env_id))
    except EnvError as error:
        return replace(row, unknown=str(error))


async def _tasks(env_id: str) -> Mapping[str, int] | None:
    """Return the number of tasks per split; None if every seed is a task."""
    thread = EnvThread(env_id)
    try:
        await thread.make(TIMEOUT_S)
        found = [await thread.run("tasks", methodcaller("tasks", split), TIMEOUT_S) for split in SPLITS]
    finally:
        await thread.close(TIMEOUT_S)
    return {split: len(tasks) for split, tasks in zip(SPLITS, found, strict=True) if tasks is not None} or None
