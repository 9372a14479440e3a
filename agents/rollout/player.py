"""The agent in an episode: the protocol that every player follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from ...records import Group, Horizon, Limit, Message, Trajectory
from ..engine.config import MAX_IMAGES
from ..tokens.conversation import Conversation

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ..engine.client import PolicyClient
    from ..engine.request import Sampling
    from ..tokens.renderer import Renderer


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The parts with which a player of the policy samples one episode."""

    client: PolicyClient
    conversation: Conversation
    horizon: Horizon
    session: str
    """The session of ``client``: the id of the trajectory."""
    turn_timeout_s: float
    sampling: Sampling | None = None
    """That of the episode's requests; None: the one of ``client``."""

    @classmethod
    def of(
        cls,
        client: PolicyClient,
        renderer: Renderer,
        env_thread: EnvThread,
        group: Group,
        trajectory: Trajectory,
        turn_timeout_s: float,
        sampling: Sampling | None = None,
        max_images: int = MAX_IMAGES,
    ) -> Self:
        """Return the parts for an episode whose system message joins the prompt prefix and the instructions."""
        system = "\n\n".join(part for part in (group.prompt_prefix, env_thread.instructions) if part)
        conversation = Conversation(renderer, system, max_images)
        return cls(client, conversation, group.horizon, trajectory.id, turn_timeout_s, sampling)


@dataclass(frozen=True, slots=True)
class PlayerTurn:
    """A player's action in one turn."""

    text: str
    messages: Sequence[Message] = ()
    """All messages since the turn before, in the order of their indices; the last one is the action. Any number of them
    may be sampled, and all of these are trained on. Empty for a player that does not sample tokens."""
    tokens: int = 0
    """Tokens that were sampled in this turn."""
    cut_by: Limit | None = None
    """The limit on tokens that ended the action before the player did."""
    image_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """What the image processor made of the images of the episode, ``Renderer.image_size`` by width and height of the
    image (``progress.IMAGE_SIZES``). Empty for a player without one."""


class Player(Protocol):
    """The agent in one episode."""

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Return the action for an observation.

        Raises:
            HorizonReached: a limit leaves no token for this turn, or for the rest of it.
            EngineFailed: the engine returned no tokens.
            CancelledError: the caller was cancelled; the cause is an ``EngineFailed`` if the engine does not respond.
        """

    def close(self) -> None:
        """Release what the player holds; the episode has ended."""


@runtime_checkable
class Patchable(Protocol):
    """A player with a history of its turns, in which an environment may replace one (``info["patch"]``)."""

    def patch(self, text: str) -> Sequence[Message]:
        """Replace the last turn in the history, and return the messages that this adds; their source is ``patch``.

        Empty for a player that does not sample tokens.
        """


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that another player took, as the history of the player who continues shows it."""

    observation: str
    images: Sequence[bytes]
    action: str


@runtime_checkable
class Continuing(Protocol):
    """A player with a history, which may continue an episode that another player began."""

    def remember(self, turns: Sequence[PastTurn]) -> Sequence[Sequence[Message]]:
        """Add the turns so far to the history, before the first turn of this player; return the messages of each.

        Their actions have the source ``peer``. A turn has no message for a player that does not sample tokens.

        Raises:
            ImagesUnsupported: an observation contains images, and the player reads text only.
        """


@runtime_checkable
class Restorable(Protocol):
    """A player whose episode may be branched and suspended."""

    def snapshot(self) -> Any:
        """Return what the player holds of its episode, between two turns, as a value that can be pickled and that later
        turns do not change."""

    def restore(self, snapshot: Any) -> None:
        """Continue from a snapshot of a player of the same class; a new player calls it before its first turn."""
