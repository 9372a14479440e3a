"""Environments by id.

An id is Gymnasium's: registered with ``gymnasium.register``, by importing a module (``"my_pkg.envs:Id-v0"``), or by
an installed package's entry point in the group ``turnwise.envs`` (its value names a module that registers when
imported, or a callable that registers). Environments are made bare: horizons, checks and order are the trainer's,
so Gymnasium's TimeLimit, OrderEnforcing and PassiveEnvChecker wrappers are left out.
"""

import difflib
import importlib
import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from ..errors import nearest
from .base import Adapted, TurnEnv
from .errors import EnvironmentFailed, UnknownEnvironment
from .web.miniwob.tasks import TASKS

ENTRY_POINTS = "turnwise.envs"
SITE = "turnwise/TextSite-v0"
OURS = {
    SITE: "turnwise.envs.text.env:TextSiteEnv",
    "turnwise/Code-v0": "turnwise.envs.code.env:CodeEnv",
    "turnwise/TinyCode-v0": "turnwise.envs.code.tiny.env:TinyCodeEnv",
    "turnwise/WebApps-v0": "turnwise.envs.web.apps.env:WebAppsEnv",
    "turnwise/TinyWeb-v0": "turnwise.envs.web.tiny.env:TinyWebEnv",
}
"""Imported when made."""
MINIWOB = "turnwise.envs.web.miniwob.env:MiniWoBEnv"


@cache
def _plugins() -> dict[str, str]:
    """Load the entry points once; gives those that would not load, with why: one bad package must not hide the rest."""
    for env_id, entry_point in OURS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point=entry_point, order_enforce=False, disable_env_checker=True)
    for task in TASKS:
        name = f"turnwise/MiniWoB-{task}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point=MINIWOB, kwargs={"task": task}, order_enforce=False, disable_env_checker=True
            )
    broken = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            loaded = point.load()
            if callable(loaded):
                loaded()
        except Exception as error:
            broken[point.value] = f"{type(error).__name__}: {error}"
    return broken


def all_ids() -> list[str]:
    """The ids of every registered environment that is ours or a plugin's (Gymnasium's own are left out), sorted."""
    _plugins()
    return sorted(spec.id for spec in gymnasium.registry.values() if not _is_gymnasiums(spec))


def _is_gymnasiums(spec: EnvSpec) -> bool:
    entry = spec.entry_point
    return (entry if isinstance(entry, str) else getattr(entry, "__module__", "")).startswith("gymnasium.")


def broken_plugins() -> dict[str, str]:
    """Entry points that could not be loaded, and why."""
    return dict(_plugins())


def spec(env_id: str) -> EnvSpec:
    """What is registered under an id.

    Raises:
        UnknownEnvironment: nothing is, and the message names the nearest id; or its module cannot be imported.
    """
    broken = _plugins()
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except Exception as error:
            why = _why(error, module, name)
            raise UnknownEnvironment(f"environment {env_id!r}: cannot import {module!r}: {why}") from error
    if name in gymnasium.registry:
        return gymnasium.registry[name]
    near = _near(module, name)
    hint = f"; did you mean {near!r}?" if near else ""
    failed = "".join(f"; plugin {point} did not load ({why})" for point, why in broken.items())
    raise UnknownEnvironment(f"no environment {env_id!r}{hint} (`turnwise envs list` shows all){failed}")


def _near(module: str, name: str) -> str:
    """The nearest id, written so that it can be asked for: only ours need no module."""
    close = difflib.get_close_matches(name, all_ids(), n=1, cutoff=0.3)
    if not close:
        return ""
    return f"{module}:{close[0]}" if module and not close[0].startswith("turnwise/") else close[0]


def _why(error: Exception, module: str, name: str) -> str:
    """What went wrong while ``module`` was imported, and in which line of it; if there is none, how one is named."""
    file = Path(module)
    if file.suffix == ".py":
        return f"a module is named without .py: `PYTHONPATH={file.parent} turnwise … {file.stem}:{name}`"
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return f"{error}; if it is a file in this folder: `PYTHONPATH=. turnwise …`"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def make(env_id: str, **options: Any) -> TurnEnv:
    """A new environment, without Gymnasium's wrappers; ``options`` go to its constructor.

    Raises:
        UnknownEnvironment: no such id.
        EnvironmentFailed: its constructor raised, for example on an unknown option.
    """
    bare = replace(spec(env_id), order_enforce=False, max_episode_steps=None, disable_env_checker=True)
    try:
        made = gymnasium.make(bare, **options)
    except Exception as error:
        if isinstance(error, TypeError) and (unknown := _unknown(bare, options)):
            raise EnvironmentFailed(f"{env_id} has no option {unknown}") from error
        said = f" with options {options}" if options else ""
        raise EnvironmentFailed(f"{env_id} could not be made{said}: {type(error).__name__}: {error}") from error
    return made if isinstance(made, TurnEnv) else Adapted(made)


def _unknown(bare: EnvSpec, options: Mapping[str, Any]) -> str:
    """The first option that the constructor does not take, with the nearest that it takes; nothing if it takes any."""
    entry = bare.entry_point
    takes = signature(load_env_creator(entry) if isinstance(entry, str) else entry).parameters  # type: ignore[arg-type]
    if any(each.kind is Parameter.VAR_KEYWORD for each in takes.values()):
        return ""
    return next((f"{name!r}{nearest(name, list(takes))}" for name in options if name not in takes), "")
