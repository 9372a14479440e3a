"""The protocol of the trainer's side of a weight update."""

from typing import Any, Protocol


class WeightBuffer(Protocol):
    """Memory that engines read weights from."""

    def write(self) -> dict[str, Any]:
        """Copy the present weights; return the argument of ``Engine.update_weights``, in plain JSON values.

        Every engine must have finished reading the previous write.
        """

    def close(self) -> None:
        """Free the memory; engines keep the weights that they loaded."""
