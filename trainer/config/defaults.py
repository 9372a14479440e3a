"""The keys of a configuration that differ from the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..algorithms.algorithm_set import SLOTS
from .errors import ConfigError
from .loading import parse_config


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of a configuration."""

    key: str
    """With dots between tables."""
    value: Any
    default: Any
    """None as well where the key has no default."""
    is_changed: bool


def config_keys(config: Mapping[str, Any]) -> list[ConfigKey]:
    """Return every key of a stored configuration of a run, in its order.

    The options of a component are compared with the defaults of that component, and ``environments`` with one
    environment of the same id. A component from outside turnwise has no defaults, because
    nothing is imported. A configuration that this program cannot read has none either: every key is changed.
    """
    environments = [{"id": one["id"]} for one in config.get("environments", ()) if isinstance(one, Mapping)]
    smallest: dict[str, Any] = {"name": str(config.get("name", "")), "environments": environments}
    model = config.get("model")
    if isinstance(model, Mapping) and model.get("path"):
        smallest["model"] = {"path": model["path"]}
    chosen = {slot.slot: _names(config[slot.slot]) for slot in SLOTS if config.get(slot.slot)}
    chosen = {slot: names for slot, names in chosen.items() if not any(":" in str(name) for _, name in flat(names))}
    try:
        plain = dict(flat(parse_config(smallest).resolved()))
        defaults = dict(flat(parse_config({**smallest, **chosen}).resolved()))
    except ConfigError:
        plain = defaults = {}
    given = smallest | {f"{slot}.name": None for slot in chosen}
    found = []
    for key, value in flat(config):
        default = (plain if key in given else defaults).get(key)
        found.append(ConfigKey(key, value, default, key not in ("name", "preset") and value != default))
    return found


def _names(component: Any) -> Any:
    """Return the choice of a component, or of each of a list, without its options."""
    if isinstance(component, list):
        return [_names(one) for one in component]
    return {"name": component["name"]} if isinstance(component, Mapping) and "name" in component else component


def flat(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Return the dotted keys of a configuration with their values."""
    if isinstance(value, Mapping) and value:
        items = [(str(key), one) for key, one in value.items()]
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        items = [(str(place), one) for place, one in enumerate(value)]
    else:
        return [(prefix, value)]
    return [pair for key, one in items for pair in flat(one, f"{prefix}.{key}" if prefix else key)]
