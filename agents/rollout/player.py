"""The agent in an episode: the protocol that every player follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...records import Message


@dataclass(frozen=True, slots=True)
class PlayerTurn:
    """A player's action in one turn."""

    text: str
    messages: Sequence[Message] = ()
    """All messages since the turn before, in the order of their indices; the last one is the action. Any number of them
    may be sampled, and all of these are trained on. Empty for a player that does not sample tokens."""
    tokens: int = 0
    """Tokens that were sampled in this turn."""


class Player(Protocol):
    """The agent in one episode."""

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Return the action for an observation.

        Raises:
            HorizonReached: a limit leaves no token for this turn, or for the rest of it.
            EngineFailed: the engine returned no tokens.
        """

    def close(self) -> None:
        """Release what the player holds; the episode has ended."""


@runtime_checkable
class Forkable(Protocol):
    """A player whose episode may be branched."""

    def fork(self, session: str) -> Player:
        """Return a player that continues from here in another episode; ``session`` is the id of its trajectory."""
