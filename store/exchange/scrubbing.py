"""Mask everything in an episode that looks like a secret, before it leaves the store.

Every text is scrubbed, except for ids and hashes. Tokens may spell the same text, so an episode with a secret loses its
tokens. Two things are not read: the pixels of images, and a thought, which the store has only as tokens.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from hashlib import sha256
from typing import Any

import numpy as np

from ...base.masking import scrubbed
from ...records import Step
from .episodes import Episode

_MASK = "***"
IDENTITIES = frozenset(
    (
        *("id", "uid", "run", "group", "env_id", "env_version", "split", "branched_from"),
        *("images", "final_images", "screenshot", "final_screenshot"),
    )
)
"""Fields that name something; every other text is scrubbed."""


def scrub(episode: Episode) -> tuple[Episode, bool]:
    """Return the episode without secrets, and whether it had any.

    A changed observation gets the hash of its new text, so that the hash does not verify a guess of the secret.
    """
    spoken = tuple(episode.trajectory.steps)
    bare = replace(episode, trajectory=replace(episode.trajectory, steps=spoken, messages=()))
    clean = scrub_value(bare)
    one = clean.trajectory
    if clean.final_observation != bare.final_observation:
        hashed = _text_hash(clean.final_observation, one.final_observation_hash)
        one = replace(one, final_observation_hash=hashed)
    steps = tuple(map(_rehashed, spoken, one.steps))
    if clean == bare:
        return episode, False
    return replace(clean, trajectory=replace(one, steps=tuple(replace(step, message=None) for step in steps))), True


def _is_secret(key: Any, value: Any) -> bool:
    """Return whether a value is a secret by its name, as in ``{"password": "..."}``."""
    return isinstance(value, str) and scrubbed(f"{key}={value}") == f"{scrubbed(str(key))}={_MASK}"


def _rehashed(before: Step, after: Step) -> Step:
    if after.observation == before.observation:
        return after
    return replace(after, observation_hash=_text_hash(after.observation, before.observation_hash))


def _text_hash(text: str, like: str) -> str:
    """Return the SHA-256 of ``text`` in hex, as long as ``like``."""
    return sha256(text.encode(errors="replace")).hexdigest()[: len(like) or None]


def scrub_value(value: Any) -> Any:
    """Return a value, such as a record, with the secrets in all of its texts masked, except for ids and hashes."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else scrubbed(value)
    if isinstance(value, Mapping):
        return {scrub_value(key): _MASK if _is_secret(key, item) else scrub_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(scrub_value(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: getattr(value, field.name) for field in fields(value)}
        texts = {name: one for name, one in values.items() if name not in IDENTITIES or is_dataclass(one)}
        return replace(value, **{name: scrub_value(one) for name, one in texts.items()})
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        raise TypeError("an array of texts cannot be scrubbed")
    return value
