"""Load a configuration: a TOML file, its preset, and ``key=value`` overrides.

Every number has an upper bound: a larger one is a slip, and fails deep inside a started run.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...base.process.user_code import admit
from ...base.user_files import UnreadableFile, parse_toml, read_toml
from ...errors import suggestion
from ..algorithms import presets
from .errors import ConfigError, explain
from .schema import RunConfig
from .sections import EnvironmentConfig

PRESETS = Path(presets.__file__).parent


def preset_names() -> list[str]:
    """Return the names of all presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def with_preset(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``raw`` on top of the preset it names; without ``preset``, a copy of ``raw``.

    Raises:
        ConfigError: no preset has that name.
    """
    name = raw.get("preset")
    if name is None:
        return dict(raw)
    known = preset_names()
    if name not in known:
        raise ConfigError(f"`preset`: there is no preset {name!r}{suggestion(str(name), known)}")
    return _merged(tomllib.loads((PRESETS / f"{name}.toml").read_text()), raw)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``over`` on top of ``under``, key by key; options of another component are not carried over."""
    out = dict(under)
    for key, value in over.items():
        below = out.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not _other_component(below, value):
            out[key] = _merged(below, value)
        else:
            out[key] = value
    return out


def _other_component(under: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    return "name" in under and "name" in over and under["name"] != over["name"]


MAX_COUNT = 2**31 - 1
"""Largest count and largest seed; numpy's old generators refuse a seed above 2**32."""
MAX_BYTES = 2**53
"""Largest size, for keys that end in `_bytes` or are named in ``SIZES``."""
SIZES = frozenset({"max_size"})
MAX_SECONDS = 1e9
"""Longest time, for keys that end in `_s` or `_seconds`: about 30 years. A wait of 300 years overflows its clock."""
FREE = frozenset({"options", "rewards"})
"""Tables whose numbers have a meaning of their own: of environments, backends and reward shapers."""


def load_config(path: str | Path, overrides: list[str] | None = None) -> RunConfig:
    """Return the checked configuration in a TOML file, with ``key=value`` overrides applied.

    The modules that it names may be imported.

    Raises:
        ConfigError: the file is missing or not TOML, or a key is wrong.
    """
    file = Path(path)
    try:
        raw = read_toml(file)
    except UnreadableFile as error:
        raise ConfigError(f"the configuration {error}") from error
    for assignment in overrides or []:
        override(raw, assignment)
    admit(raw)
    try:
        return parse_config(raw)
    except ConfigError as error:
        where = f"`{file}` with {', '.join(f'`--set {one}`' for one in overrides)}" if overrides else f"`{file}`"
        raise ConfigError(f"{where}: {error}") from error


def parse_config(raw: dict[str, Any]) -> RunConfig:
    """Return the checked configuration of plain values, as TOML or JSON hold them.

    Raises:
        ConfigError: one or more keys are wrong; the message names each, and the nearest key or the new name.
    """
    merged = with_preset(raw)
    try:
        config = RunConfig.model_validate(merged)
    except ValidationError as error:
        smallest = RunConfig(name="any", environments=[EnvironmentConfig(id="any")])
        raise ConfigError(explain(error, RunConfig, merged, smallest.resolved())) from error
    resolved = config.resolved()
    if refusals := [*_converted(merged, resolved), *too_large(resolved)]:
        raise ConfigError("\n".join(refusals))
    return config


def _converted(given: Any, resolved: Any, key: str = "") -> Iterator[str]:
    """Yield a line per truth value or text that became a number: ``learning_rate = true`` would be 1."""
    if isinstance(given, Mapping) and isinstance(resolved, Mapping):
        for name in [one for one in given if one in resolved]:  # in their order in the file
            yield from _converted(given[name], resolved[name], f"{key}.{name}" if key else name)
    elif isinstance(given, Sequence) and not isinstance(given, str) and isinstance(resolved, Sequence):
        for number, pair in enumerate(zip(given, resolved, strict=False)):
            yield from _converted(*pair, f"{key}.{number}")
    elif isinstance(given, bool | str) and type(resolved) in (int, float) and _is_plain(given):
        yield f"`{key}`: a number is needed, not {json.dumps(given)}"


def _is_plain(given: bool | str) -> bool:
    """Return whether a value is a truth value or a number in quotes, and not a number with a unit, such as ``1GiB``."""
    try:
        float(given)
    except ValueError:
        return False
    return True


def override(raw: dict[str, Any], assignment: str) -> None:
    """Apply one ``dotted.key=value`` in place; items of lists are addressed by number.

    The value is TOML; text that is not TOML is taken as a string.

    Raises:
        ConfigError: the assignment has no ``=``, or its path leads through a value that holds no keys.
    """
    key, separator, text = assignment.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"`--set {assignment}`: expected key=value")
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text
    *path, last = key.strip().split(".")
    node: Any = raw
    try:
        for part in path:
            if isinstance(node, dict) and node.get(part) is None:
                node[part] = {}
            node = node[int(part) if isinstance(node, list) else part]
        node[int(last) if isinstance(node, list) else last] = value
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ConfigError(
            f"`--set {assignment}`: a part of `{key}` is neither a key of a table nor an existing list item"
        ) from error


def too_large(resolved: Mapping[str, Any]) -> list[str]:
    """Return a line per number of a resolved configuration that is above the bound of its kind, in magnitude."""
    return [
        f"`{key}`: {_shown(value)} is beyond the limit of {bound:,.0f}" for key, value, bound in _large(resolved, "")
    ]


def _shown(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) if abs(value) < 10**20 else f"{str(value)[:8]}…"


def _large(value: Any, path: str) -> Iterator[tuple[str, float, float]]:
    name = path.rpartition(".")[2]
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in FREE:
                yield from _large(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _large(item, f"{path}.{place}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        bound = _bound(name, value)
        if bound is not None and abs(value) > bound:
            yield path, value, bound


def _bound(name: str, value: float) -> float | None:
    if name.endswith(("_s", "_seconds")):
        return MAX_SECONDS
    if not isinstance(value, int):
        return None
    return MAX_BYTES if name.endswith("_bytes") or name in SIZES else MAX_COUNT
