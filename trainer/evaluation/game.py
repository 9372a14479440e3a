"""How the episodes of an evaluation are played: horizon, timeouts, temperature, and the engine's numerics.

A checkpoint plays the game of its run, so that ``turnwise eval`` measures what ``turnwise train`` reports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...agents.engine.actor import EngineConfig
from ...agents.rollout.episode import Deadlines
from ...errors import TurnwiseError
from ...records import Horizon
from ..algorithms.curriculum.horizons.base import HorizonSchedule
from ..algorithms.curriculum.horizons.constant import ConstantHorizon
from ..config.sections import RolloutConfig


@dataclass(frozen=True, slots=True)
class Game:
    """How the episodes of an evaluation are played."""

    horizon: Horizon
    rollout: RolloutConfig
    engine: EngineConfig

    @property
    def deadlines(self) -> Deadlines:
        """The timeouts of ``rollout``."""
        return self.rollout.timeouts

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"horizon": asdict(self.horizon), "rollout": self.rollout.model_dump(mode="json")}


def game_of(policy: str, turns: int | None, temperature: float | None) -> Game:
    """The game of a policy: that of its run for a checkpoint, else one with ample limits on tokens.

    Args:
        turns: replaces the turns of the horizon.
        temperature: replaces the temperature.
    """
    if (trained := _trained_with(policy)) is not None:
        horizon = HorizonSchedule.build(trained["horizon"]).longest()
        engine = EngineConfig(dtype=trained["engine"]["dtype"])
        timeouts = {key: value for key, value in trained["rollout"].items() if key.endswith("_timeout_s")}
        rollout = RolloutConfig(temperature=trained["rollout"]["temperature"], **timeouts)
    else:
        context = 1 << 20
        if is_model(policy):
            window = int(json.loads((Path(policy) / "config.json").read_text()).get("max_position_embeddings", 1024))
            context = min(window, 4096)
        horizon = Horizon(ConstantHorizon().max_turns, 256 if is_model(policy) else 4096, 1 << 20, context)
        engine, rollout = EngineConfig(), RolloutConfig()
    return Game(
        horizon if turns is None else replace(horizon, max_turns=turns),
        rollout if temperature is None else rollout.model_copy(update={"temperature": temperature}),
        engine,
    )


def _trained_with(policy: str) -> dict[str, Any] | None:
    """The resolved configuration of the run that wrote a checkpoint; None for any other policy.

    Raises:
        TurnwiseError: the checkpoint's state cannot be read.
    """
    if not is_model(policy):
        return None
    from ..learner.checkpoint import STATE, read_state

    try:
        config: dict[str, Any] = read_state(Path(policy))["config"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise TurnwiseError(
            f"`{Path(policy) / STATE}` cannot be read ({type(error).__name__}: {error}), so the horizon and timeouts of"
            " its run are unknown; evaluate another checkpoint, or a copy of the folder without `training/`"
        ) from error
    return config


def is_model(policy: str) -> bool:
    """Whether a policy is the folder of a Hugging Face model."""
    return (Path(policy) / "config.json").is_file()
