"""A tiny environment: a closed vocabulary, and the rewards and words that all of them share.

An observation that begins with ``invalid`` reports an action that does not parse or apply; ``right`` and ``wrong`` end
an episode, and ``ended`` answers each later action.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from ...episode import EpisodeEnv, Turn
from ...spaces import FreeText

SUCCESS_REWARD = 1.0
STEP_REWARD = 0.2
"""For each step towards the goal, once."""
WRONG_REWARD = -0.3
"""For an end without success."""
INVALID_REWARD = -0.05

T = TypeVar("T")


class TinyEnv(EpisodeEnv[T]):
    """The base class of environments in a closed vocabulary."""

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]]
    """Every word of the observations and valid actions, in a fixed order: a tiny model's token ids follow it."""
    max_chars: ClassVar[int] = 400

    def __init__(self) -> None:
        self.action_space = FreeText(words=self.words)
        self.observation_space = FreeText(self.max_chars, words=self.words)

    def vocabulary(self) -> list[str]:
        """Return every word of the observations and valid actions."""
        return list(self.words)


def end(success: bool, info: Mapping[str, Any] | None = None) -> Turn:
    """Return the last turn of an episode."""
    parts = {"success": SUCCESS_REWARD} if success else {"wrong": WRONG_REWARD}
    return Turn("right" if success else "wrong", parts, over=True, success=success, info=info or {})


def invalid(view: str) -> Turn:
    """Return the turn of an action that does not parse or apply, where ``view`` is still in view."""
    return Turn(f"invalid {view}".strip(), {"invalid": INVALID_REWARD}, valid=False)
