"""The typed path of one trajectory into the store: start, one append per turn, finish."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..records import Message, Status, Step, Trajectory
from .client import StoreClient
from .operations import append, finish_trajectory, start_trajectory


class TrajectoryWriter:
    """Writes one trajectory and counts its steps and messages.

    ``start`` and ``append`` return immediately; ``finish`` waits until the trajectory is durable. The store compares
    the counts with its rows, so a trajectory never ends with a part missing.
    """

    def __init__(self, client: StoreClient, trajectory: Trajectory) -> None:
        self._client = client
        self._trajectory = trajectory
        self._n_steps = 0
        self._n_messages = 0

    def start(self) -> None:
        """Store the trajectory as running."""
        self._client.submit(start_trajectory.bind(trajectory=self._trajectory))

    def append(
        self, steps: Sequence[Step], messages: Sequence[Message], images: Mapping[str, bytes] | None = None
    ) -> None:
        """Store the steps and messages of a turn; ``images`` maps the hash of each image they name to its bytes."""
        name = self._trajectory.id
        self._client.submit(append.bind(trajectory=name, steps=steps, messages=messages, images=images))
        self._n_steps += len(steps)
        self._n_messages += len(messages)

    def check(self) -> None:
        """Raise the error of a write that was lost, without a wait for the writes under way."""
        self._client.check(self._trajectory.id)

    async def finish(
        self,
        status: Status,
        *,
        reward: float = 0.0,
        success: bool | None = None,
        error: str = "",
        final_observation_hash: str = "",
        final_observation: str = "",
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        """End the trajectory, and wait until all of it is durable.

        Raises:
            TurnwiseError: the store lost a write of this trajectory, or could not take this one.
        """
        await self._client.commit(
            finish_trajectory.bind(
                trajectory=self._trajectory.id,
                status=status,
                reward=reward,
                success=success,
                error=error,
                final_observation_hash=final_observation_hash,
                final_observation=final_observation,
                extras=extras,
                n_steps=self._n_steps,
                n_messages=self._n_messages,
            )
        )
