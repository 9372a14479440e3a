"""The division of parameters into buckets: the same on both sides, because it depends on the metadata alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..source import ParamMeta

BUCKET_BYTES = 64 << 20
ALIGNMENT = 64


@dataclass(slots=True)
class Bucket:
    """Successive parameters in one tensor of bytes."""

    parameters: list[ParamMeta] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    nbytes: int = 0

    def add(self, parameter: ParamMeta) -> None:
        """Append a parameter at the next aligned offset."""
        offset = -(-self.nbytes // ALIGNMENT) * ALIGNMENT
        self.parameters.append(parameter)
        self.offsets.append(offset)
        self.nbytes = offset + parameter.nbytes

    def pack(self, values: Iterable[Tensor], buffer: Tensor) -> Tensor:
        """Copy the parameters into ``buffer``, uint8, and return its used part, shape (nbytes,)."""
        for (_, view), value in zip(self.unpack(buffer), values, strict=True):
            view.copy_(value)
        return buffer[: self.nbytes]

    def unpack(self, data: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters by name, as views of ``data``."""
        for one, offset in zip(self.parameters, self.offsets, strict=True):
            yield one.name, data[offset : offset + one.nbytes].view(one.dtype).view(one.shape)


def divide(metadata: Sequence[ParamMeta], limit: int) -> list[Bucket]:
    """Return buckets of at most ``limit`` bytes; a larger parameter has a bucket for itself."""
    buckets: list[Bucket] = []
    for one in metadata:
        if not buckets or buckets[-1].nbytes + ALIGNMENT + one.nbytes > limit:
            buckets.append(Bucket())
        buckets[-1].add(one)
    return buckets


def as_bytes(value: Tensor) -> Tensor:
    """Return the memory of a tensor as uint8, shape (nbytes,); a copy only if it is not contiguous."""
    return value.contiguous().view(-1).view(torch.uint8)
