"""Find and make environments by id.

An id is Gymnasium's. It is registered in one of three ways:

* ``gymnasium.register`` in this process;
* a module that registers when it is imported: ``"my_pkg.envs:Id-v0"``, if a person named it (``user_code``);
* an entry point of an installed package in the group ``turnwise.envs``: a module that registers when it is imported, or
  a callable that registers.

Environments are made without Gymnasium's OrderEnforcing and PassiveEnvChecker wrappers: the trainer owns checks and the
order of calls. A registered limit on turns holds besides the horizon of a run (``base.Adapted``).
"""

import difflib
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from threading import RLock
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from ..base.process.user_code import import_named
from .base import Adapted, TurnEnv
from .errors import EnvironmentBroken, EnvironmentFailed, UnknownEnvironment
from .options import as_declared, misfit

LOG = logging.getLogger(__name__)

ENTRY_POINTS = "turnwise.envs"
LIKENESS_MIN = 0.6
"""Likeness of two names, from 0 to 1, from which one is proposed for the other."""
REGISTER_TIMEOUT_S = 30.0
"""Longest wait for another thread that loads the plugins or imports a module of environments; ends before
``Timeouts.reset_s``, which bounds the making of an environment.
"""
_REGISTERING = RLock()
"""Held while this module registers: Gymnasium's ``register`` fails in several threads at once."""
_at_work = ""
"""What the thread that holds the lock does."""
_loading = False
"""Whether that thread loads the plugins."""
_broken: dict[str, str] | None = None
"""The entry points that failed to load, with the reason; None until all were loaded."""


@contextmanager
def _registering(what: str) -> Iterator[None]:
    """Let one thread at a time register; ``what`` it does is named in the other threads' error.

    Raises:
        EnvironmentFailed: another thread still registers after ``REGISTER_TIMEOUT_S``.
    """
    global _at_work
    if not _REGISTERING.acquire(timeout=REGISTER_TIMEOUT_S):
        raise EnvironmentFailed(
            f"cannot {what}: another thread has taken more than {REGISTER_TIMEOUT_S:g} s to {_at_work}. That code may "
            "be slow, or may itself wait for a thread that makes environments"
        )
    before, _at_work = _at_work, what
    try:
        yield
    finally:
        _at_work = before
        _REGISTERING.release()


def load_plugins() -> Mapping[str, str]:
    """Load the entry points of the installed packages, turnwise's own among them, once for all threads.

    A plugin that uses the registry while it loads finds what is registered by then.

    Returns the entry points that failed to load, with the reason: one broken package must not hide the others.

    Raises:
        EnvironmentFailed: another thread still loads them after ``REGISTER_TIMEOUT_S``.
    """
    global _broken, _loading
    if _broken is not None:
        return _broken
    with _registering("load the plugins"):
        if _broken is None and not _loading:
            _loading = True
            try:
                _broken = _register()
            finally:
                _loading = False
        return _broken or {}


def _register() -> dict[str, str]:
    broken = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            with _registering(f"load the plugin {point.value}"):
                loaded = point.load()
                if callable(loaded):
                    loaded()
        except (Exception, SystemExit) as error:
            LOG.warning("a plugin did not load", exc_info=True, extra={"plugin": point.value})
            broken[point.value] = f"{type(error).__name__}: {error}"
    return broken


def all_ids() -> list[str]:
    """Return the sorted ids of the shipped environments and of plugins, without Gymnasium's own.

    Raises:
        EnvironmentFailed: another thread still loads the plugins after ``REGISTER_TIMEOUT_S``.
    """
    load_plugins()
    return sorted(spec.id for spec in list(gymnasium.registry.values()) if not _is_gymnasiums(spec))


def _is_gymnasiums(spec: EnvSpec) -> bool:
    entry = spec.entry_point
    return (entry if isinstance(entry, str) else getattr(entry, "__module__", "")).startswith("gymnasium.")


def is_registered(env_id: str) -> bool:
    """Return whether an id is registered already, without an import of its module."""
    load_plugins()
    module, _, name = env_id.rpartition(":")
    return name in gymnasium.registry and (not module or module in sys.modules)


def spec(env_id: str) -> EnvSpec:
    """Return the registered spec of an id.

    Raises:
        UnknownEnvironment: the id is not registered (the message names the nearest id), or its module fails to import.
        EnvironmentFailed: another thread still registers environments after ``REGISTER_TIMEOUT_S``.
    """
    broken = load_plugins()
    module, _, name = env_id.rpartition(":")
    if module and not is_registered(env_id):
        with _registering(f"import {module}"):
            try:
                import_named(module)
            except (Exception, SystemExit) as error:
                why = _why(error, module, name)
                raise UnknownEnvironment(f"environment {env_id!r}: cannot import {module!r}: {why}") from error
    if name in gymnasium.registry:
        return gymnasium.registry[name]
    close = nearest(name, module)
    hint = f" (did you mean {close!r}?)" if close else ""
    if not module and not name.startswith("turnwise/"):
        hint += f"; for an id of a module that is not installed as a plugin, write `module:{name}`"
    failed = "".join(f"; plugin {point} did not load ({why})" for point, why in broken.items())
    where = f"`gymnasium.register` in `{module}` names its ids" if module else "`turnwise envs list` shows all"
    raise UnknownEnvironment(f"no environment {env_id!r}{hint}; {where}{failed}")


def nearest(name: str, module: str = "") -> str:
    """Return the nearest id in the form that ``make`` takes: only shipped environments need no module.

    The names count first, and then the namespaces. Empty if none is near.
    """

    def likeness(env_id: str) -> tuple[float, float]:
        bare = _bare(env_id)
        own = max(_likeness(_bare(name), part) for part in (bare, bare.partition("-")[0]))
        return own, _likeness(_namespace(name), _namespace(env_id))

    env_id = max(all_ids(), key=likeness)
    if likeness(env_id)[0] < LIKENESS_MIN:
        return ""
    return f"{module}:{env_id}" if module and not env_id.startswith("turnwise/") else env_id


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _namespace(env_id: str) -> str:
    return env_id.rpartition("/")[0].casefold()


def _bare(env_id: str) -> str:
    """Return the name of an id without namespace and version, in lower case."""
    return env_id.partition("/")[2 if "/" in env_id else 0].rpartition("-v")[0 if "-v" in env_id else 2].casefold()


def _why(error: BaseException, module: str, name: str) -> str:
    """Return why ``module`` failed to import, with the line; if there is no such module, how to name one."""
    file = Path(module)
    if file.suffix == ".py":
        return f"name the module without `.py`: `PYTHONPATH={file.parent} turnwise … {file.stem}:{name}`"
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return f"{error}; for a file in this folder, run `PYTHONPATH=. turnwise …`"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def make(env_id: str, **options: Any) -> TurnEnv:
    """Make an environment without Gymnasium's checking wrappers; ``options`` go to its constructor.

    The registered ``max_episode_steps`` truncates its episodes; an option of that name replaces it, as in
    ``gymnasium.make`` (-1: no limit).

    Raises:
        UnknownEnvironment: the id is not registered.
        EnvironmentFailed: the constructor raised, for example on an unknown option; or as ``spec`` raises it.
        EnvironmentBroken: its ``reset`` takes no seed or no options.
    """
    registered = spec(env_id)
    wanted = options.pop("max_episode_steps", None)
    limit = _limit(env_id, registered.max_episode_steps if wanted is None else wanted)
    # The limit counts the turns of the environment as it was registered, inside the wrappers of its specification.
    inside = limit if registered.additional_wrappers else None
    bare = replace(registered, order_enforce=False, max_episode_steps=inside, disable_env_checker=True)
    if why := _misfit(bare, options):
        raise EnvironmentFailed(f"{env_id} {why}")
    try:
        made = gymnasium.make(bare, **options)
    except (Exception, SystemExit) as error:
        given = f" with options {options}" if options else ""
        raise EnvironmentFailed(f"{env_id} could not be made{given}: {type(error).__name__}: {error}") from error
    try:
        signature(made.unwrapped.reset).bind(seed=0, options={})
    except TypeError as error:
        raise EnvironmentBroken(
            f"reset() of {type(made.unwrapped).__name__} takes no seed and options ({error}): define it as "
            "`reset(self, *, seed=None, options=None)`; `options` has the `split`"
        ) from error
    if isinstance(made, TurnEnv) and limit is None:
        return made
    return Adapted(made, None if inside else limit)


def _limit(env_id: str, limit: Any) -> int | None:
    """Return the limit on the turns of an episode; None for none. Raises EnvironmentFailed."""
    if limit in (None, -1):
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise EnvironmentFailed(f"{env_id}: `max_episode_steps` is {limit!r}; set it to a whole number above 0")
    return limit


def check_options(env_id: str, options: Mapping[str, Any]) -> None:
    """Check the options of an environment against the parameters of its constructor, without making it.

    Raises:
        UnknownEnvironment: the id is not registered.
        EnvironmentFailed: an option is unknown, or has another type than the constructor declares.
    """
    rest = {name: value for name, value in options.items() if name != "max_episode_steps"}
    if rest and (why := _misfit(spec(env_id), rest)):
        raise EnvironmentFailed(f"{env_id} {why}")


def options_as_declared(env_id: str, values: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return options that were read as JSON, each as its text where the constructor declares a text: ``bucket=2024``.

    They are returned as they are if the constructor cannot be read; the making of the environment reports why.
    """
    try:
        return as_declared(_constructor(spec(env_id)), values, texts)
    except Exception:  # noqa: BLE001 - the import of a user's module
        return dict(values)


def _constructor(bare: EnvSpec) -> Callable[..., object]:
    entry = bare.entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry  # type: ignore[return-value]


def _misfit(bare: EnvSpec, options: Mapping[str, Any]) -> str:
    """Return which option the constructor does not take; empty if it takes all, or if it cannot be read."""
    try:
        return misfit(_constructor(bare), options)
    except Exception:  # noqa: BLE001 - the import of a user's module, whose error the making of the environment reports
        return ""
