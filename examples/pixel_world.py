"""A Gymnasium world of another project, with pixels and numbered actions, as an environment for a policy that sees."""

from hashlib import sha256
from typing import Any

import gymnasium
from gymnasium.spaces import Dict
from turnwise.envs import FreeText, TurnEnv


class PixelWorld(TurnEnv):
    """A world whose observations are pixels, or a dictionary with pixels as ``image``, played in words."""

    def __init__(self, world: gymnasium.Env[Any, Any], actions: tuple[str, ...], mission: str) -> None:
        self.world, self.actions, self.mission = world, actions, mission
        self.action_space = FreeText(words=actions)
        space = world.observation_space
        image = space["image"] if isinstance(space, Dict) else space
        self.observation_space = Dict({"text": FreeText(), "image": image})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the two splits share no seed of the world."""
        super().reset(seed=seed)
        draw = int(self.np_random.integers(2**30)) * 2 + ((options or {}).get("split") == "test")
        self._seen, _ = self.world.reset(seed=draw)
        return self._shown(self.mission), {"state_key": self._state_key()}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the action of the word; another word is invalid, and changes nothing."""
        word = action.strip()
        if word not in self.actions:
            info = {"action_valid": False, "state_key": self._state_key()}
            return self._shown(f"no action: {' '.join(self.actions)}"), 0.0, False, False, info
        self._seen, reward, terminated, truncated, _ = self.world.step(self.actions.index(word))
        info = {"action_valid": True, "state_key": self._state_key()}
        if terminated or truncated:
            info["success"] = bool(terminated and float(reward) > 0)
        return self._shown(self.mission), float(reward), terminated, truncated, info

    def instructions(self) -> str:
        """Return the words of the actions."""
        return f"Answer with one word: {' '.join(self.actions)}"

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return all words."""
        return [(word, 1.0) for word in self.actions]

    def vocabulary(self) -> list[str]:
        """Return the words of the observations, the actions and the instructions, for a new tiny model."""
        return f"{self.mission} no action: {self.instructions()}".split()

    def close(self) -> None:
        """Close the world."""
        self.world.close()

    def _shown(self, text: str) -> dict[str, Any]:
        return {"text": text, "image": self._pixels().copy()}

    def _state_key(self) -> str:
        return sha256(self._pixels().tobytes()).hexdigest()[:16]

    def _pixels(self) -> Any:
        return self._seen["image"] if isinstance(self._seen, dict) else self._seen
