"""Tasks: an environment with the seed, split and options of one instance.

The id of a task is the hash of its other fields, the same in every process.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from typing import Any

from .. import __version__
from ..records import Task
from . import registry


def task_id(env_id: str, env_version: str, seed: int, split: str, options: Mapping[str, Any]) -> str:
    """Return 24 hex digits of the SHA-256 of the fields as canonical JSON.

    Raises:
        TypeError: an option is not a JSON value.
    """
    text = json.dumps([env_id, env_version, seed, split, dict(options)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@lru_cache(maxsize=64)
def env_version(env_id: str) -> str:
    """Return the version in the id, such as ``0`` for ``turnwise/TextSite-v0``; empty for an id without a version.

    Raises:
        UnknownEnvironment: no such id.
    """
    version = registry.spec(env_id).version
    return "" if version is None else str(version)


@lru_cache(maxsize=64)
def env_package(env_id: str) -> str:
    """Return the installed package that provides the environment, with its version: ``turnwise 0.1.0``.

    Empty if no installed package provides the environment's module.

    Raises:
        UnknownEnvironment: no such id.
    """
    entry = registry.spec(env_id).entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    top = module.partition(".")[0]
    if top == __name__.partition(".")[0]:
        return f"{top} {__version__}"
    for point in entry_points(group=registry.ENTRY_POINTS):
        if point.module.partition(".")[0] == top and point.dist is not None:
            return f"{point.dist.name} {point.dist.version}"
    try:
        found = distribution(top)
    except (PackageNotFoundError, ValueError):
        return ""
    return f"{found.name} {found.version}"


def make_task(env_id: str, seed: int, split: str = "train", options: Mapping[str, Any] | None = None) -> Task:
    """Return the task of a seed.

    Raises:
        UnknownEnvironment: no such id.
        TypeError: an option is not a JSON value.
    """
    version = env_version(env_id)
    chosen = dict(options or {})
    return Task(task_id(env_id, version, seed, split, chosen), env_id, version, seed, split, chosen)


def env_key(task: Task) -> str:
    """Return the key under which the task's environment is reused: its id and options."""
    return env_key_of(task.env_id, task.options)


def env_key_of(env_id: str, options: Mapping[str, object]) -> str:
    """Return the key of an environment id with options."""
    return f"{env_id} {json.dumps(dict(options), sort_keys=True)}" if options else env_id
