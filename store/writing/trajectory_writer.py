"""The typed path of one trajectory into the store: start, one append per turn, finish."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from ...records import Message, Step, Trajectory
from ..content.blobs import PNG, NewBlob
from ..content.rows import Written, by_idx, rows_of
from ..errors import NotStored
from ..operations import Ending, append, finish_trajectory, start_trajectory
from .client import StoreClient


class TrajectoryWriter:
    """Writes one trajectory, counts its turns, and computes its content digest.

    ``start`` and ``append`` return immediately; ``finish`` waits until the trajectory is durable. The store compares
    the counts with its rows, so a trajectory never ends with a part missing. Every write names this writer, so no other
    process adds to the trajectory.
    """

    def __init__(self, client: StoreClient, trajectory: Trajectory) -> None:
        self._client = client
        self._trajectory = trajectory
        self._writer = uuid4().hex
        self._written = Written()

    def start(self) -> None:
        """Store the trajectory as running."""
        self._client.submit(start_trajectory.bind(trajectory=self._trajectory, writer=self._writer))

    def append(
        self, steps: Sequence[Step], messages: Sequence[Message], images: Mapping[str, bytes] | None = None
    ) -> None:
        """Store the steps and messages of a turn; ``images`` maps the hash of each image they name to its bytes.

        Raises:
            NotStored: a reward is not finite, a column of tokens does not fit, the key of an image is not its hash, or
                the message of a step is missing.
        """
        try:
            rows = rows_of(steps, messages, images)
        except ValueError as error:
            raise NotStored(f"a turn of trajectory {self._trajectory.id} cannot be stored: {error}") from error
        self._written.add(rows)
        write = append.bind(trajectory=self._trajectory.id, rows=rows, writer=self._writer)
        self._client.submit(write)

    async def wait_for_room(self) -> None:
        """Wait while too many writes of this process are not committed yet."""
        await self._client.wait_for_room()

    def check(self) -> None:
        """Raise the error of a write that was lost, without a wait for the writes under way."""
        self._client.check(self._trajectory.id)

    async def finish(self, ending: Ending, images: Sequence[bytes] = (), screenshot: bytes | None = None) -> None:
        """End the trajectory, and wait until all of it is durable.

        Args:
            images: those of the final observation, as PNG.
            screenshot: that of the end, as PNG; None for none.

        Raises:
            TurnwiseError: the store lost a write of this trajectory, or could not take this one.
        """
        final = {idx: NewBlob.of(image, PNG) for idx, image in by_idx(images, screenshot).items()}
        tally = self._written.tally({idx: image.hash for idx, image in final.items()})
        ending = replace(ending, trajectory=self._trajectory.id, final_images=final, tally=tally, writer=self._writer)
        await self._client.submit(finish_trajectory.write(ending))
