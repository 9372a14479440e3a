"""Presets: named bundles of keys under a run's own keys."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import suggestion
from ..algorithms import presets
from .errors import ConfigError

FOLDER = Path(presets.__file__).parent


def preset_names() -> list[str]:
    """Return the names of all presets, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


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
    return _merged(tomllib.loads((FOLDER / f"{name}.toml").read_text()), raw)


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
