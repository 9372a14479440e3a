"""The checked result of a reset or a step.

``StepResult`` holds all that the episode loop needs. The checks happen here, once for every environment: types, a
finite reward, the size of the observation, and the keys of ``info`` that have a meaning.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic_core import from_json

from ...sandbox.errors import SandboxBroken
from ..base import TurnEnv
from ..errors import EnvironmentBroken, EnvironmentFailed
from .observations import observation_hash, parts, png

_NUMBERS = (int, float, np.integer, np.floating, np.bool_)
_FLAGS = (bool, np.bool_)
MAX_TAMPER_CHARS = 200
MAX_TARGETS = 32
"""Limit of the targets of one action."""
MAX_INFO_CHARS = 16_384
"""Limit of ``state_key``, of the names in ``reward_parts``, and of ``extras`` as JSON."""
RUNNER_EXTRAS = frozenset({"continues", "env_package", "image_sizes", "loss_weight", "screenshot_error", "targets"})
"""Keys of a trajectory's ``extras`` that the runner of episodes writes, so an environment has to name others."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One observation with its reward and info; after a reset the reward is 0 and the episode has not ended."""

    text: str
    images: tuple[bytes, ...]
    """PNG files."""
    hash: str
    """Hash of the whole normalized observation."""
    reward: float
    terminated: bool
    truncated: bool
    action_valid: bool
    """``info["action_valid"]``: the action could be parsed and applied."""
    state_key: str
    """Key of the state in which the next action is taken."""
    success: bool | None
    reward_parts: Mapping[str, float]
    extras: Mapping[str, Any]
    """``info["extras"]``: JSON values for the record."""
    ms: float
    """Milliseconds that the environment took."""
    patch: str | None = None
    """``info["patch"]``: the action that the environment applied instead of the agent's; None if it applied that."""
    targets: Sequence[Sequence[float]] = ()
    """``info["targets"]``: the points and boxes of the screen that the action points at."""


def _checked(name: str, value: Any, kinds: type | tuple[type, ...], noun: str) -> Any:
    if not isinstance(value, kinds):
        raise EnvironmentBroken(f"{name} is {type(value).__name__}, not {noun}")
    return value


def _number(name: str, value: Any) -> float:
    try:
        number = float(_checked(name, value, _NUMBERS, "a number"))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise EnvironmentBroken(f"{name} is {number}; it must be finite")
    return number


def _flag(name: str, value: Any) -> bool:
    return bool(_checked(name, value, _FLAGS, "bool"))


def _result(
    env: TurnEnv, observation: Any, reward: float, terminated: bool, truncated: bool, info: Any, ms: float
) -> StepResult:
    text, image = parts(observation)
    error = _checked("info", info, dict, "dict").get("env_error")
    if error is not None:
        raise EnvironmentFailed(f"the environment reports: {error}")
    key = _checked("info['state_key']", info.get("state_key", ""), str, "str")
    _bound("info['state_key'] is", len(key), "characters")
    success, patch = info.get("success"), info.get("patch")
    addends = _checked("info['reward_parts']", info.get("reward_parts") or {}, dict, "dict")
    _bound(
        "the names in info['reward_parts'] are", len(json.dumps([str(name) for name in addends])), "characters of JSON"
    )
    _bound("info['patch'] is", len(_checked("info['patch']", "" if patch is None else patch, str, "str")), "characters")
    return StepResult(
        text=text,
        images=() if image is None else (png(image),),
        hash=observation_hash(env, observation),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        action_valid=_flag("info['action_valid']", info.get("action_valid", True)),
        state_key=key,
        success=None if success is None else _flag("info['success']", success),
        reward_parts={str(name): _number(f"info['reward_parts'][{name!r}]", value) for name, value in addends.items()},
        extras=_extras(info.get("extras")),
        ms=ms,
        patch=patch,
        targets=_targets(info.get("targets", ())),
    )


def _extras(extras: Any) -> dict[str, Any]:
    if extras is None:
        return {}
    _checked("info['extras']", extras, dict, "dict")
    if own := RUNNER_EXTRAS & extras.keys():
        raise EnvironmentBroken(f"info['extras'] has the key {min(own)!r}, which turnwise writes: name it otherwise")
    try:
        written = json.dumps(extras, allow_nan=False)
        _bound("info['extras'] is", len(written), "characters of JSON")
        return dict(from_json(written))  # which bounds the nesting
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentBroken(f"info['extras'] is not JSON: {error}") from error


def _targets(targets: Any) -> list[list[float]]:
    name = "info['targets']"
    found = [
        _checked(name, one, (list, tuple), "a list of lists")
        for one in _checked(name, targets, (list, tuple), "a list")
    ]
    if len(found) > MAX_TARGETS or any(len(one) not in (2, 4) for one in found):
        raise EnvironmentBroken(f"{name} must be at most {MAX_TARGETS} lists [x, y] or [x, y, width, height]")
    return [[_number(name, value) for value in one] for one in found]


def _bound(what: str, size: int, unit: str) -> None:
    if size > MAX_INFO_CHARS:
        raise EnvironmentBroken(f"{what} {size} {unit}; the limit is {MAX_INFO_CHARS}")


def from_reset(env: TurnEnv, answer: Any, ms: float = 0.0) -> StepResult:
    """Return the checked result of ``env.reset``.

    Raises:
        EnvironmentBroken: ``answer`` is not (observation, info), or a value breaks the contract.
        EnvironmentFailed: ``info["env_error"]`` reports a failure.
    """
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise EnvironmentBroken(f"reset returned {_shape(answer)}, not (observation, info)")
    return _result(env, answer[0], 0.0, False, False, answer[1], ms)


def from_step(env: TurnEnv, answer: Any, ms: float = 0.0) -> StepResult:
    """Return the checked result of ``env.step``.

    Raises:
        EnvironmentBroken: ``answer`` is not (observation, reward, terminated, truncated, info), or a value breaks the
            contract.
        EnvironmentFailed: ``info["env_error"]`` reports a failure.
    """
    if not isinstance(answer, tuple) or len(answer) != 5:
        raise EnvironmentBroken(
            f"step returned {_shape(answer)}, not (observation, reward, terminated, truncated, info)"
        )
    observation, reward, terminated, truncated, info = answer
    ended, cut = _flag("terminated", terminated), _flag("truncated", truncated)
    return _result(env, observation, _number("reward", reward), ended, cut, info, ms)


def broken_sandbox(error: SandboxBroken) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """Return what a step returns whose agent broke its sandbox: the episode ends without success or reward."""
    info = {"success": False, "extras": {"tamper": [f"the sandbox broke: {error}"[:MAX_TAMPER_CHARS]]}}
    return "the sandbox broke", 0.0, True, False, info


def _shape(answer: Any) -> str:
    return f"a tuple of {len(answer)}" if isinstance(answer, tuple) else type(answer).__name__
