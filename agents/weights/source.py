"""The learner's weights as a stream, gathered one parameter at a time; the interface of vLLM's ``WeightSource``.

Their division into buckets is the same on both sides, because it depends on the metadata alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

BUCKET_BYTES = 64 << 20
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class ParamMeta:
    """A parameter as it is transferred."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Return the size of the whole parameter in bytes."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


class ParameterSource:
    """Named parameters, kept by reference; each iteration yields their present values. Tied ones appear once.

    Where parameters are sharded, an iteration is a collective of all ranks, and holds one whole parameter at a time.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, Tensor]],
        whole: Callable[[Tensor], Tensor] = lambda value: value,
        adapter: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the parameters.

        Args:
            whole: returns a parameter as one tensor, where it is sharded.
            adapter: PEFT's settings of a LoRA adapter, if the parameters are those of the adapter.
        """
        unique: dict[int, tuple[str, Tensor]] = {}
        for name, parameter in named_parameters:
            unique.setdefault(id(parameter), (name, parameter))
        self._parameters = list(unique.values())
        self._whole = whole
        self._adapter = None if adapter is None else dict(adapter)

    def metadata(self) -> list[ParamMeta]:
        """Return what an iteration yields, in its order, without gathering anything."""
        return [ParamMeta(name, one.dtype, tuple(one.shape)) for name, one in self._parameters]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each parameter as one tensor, without gradient."""
        for name, parameter in self._parameters:
            with torch.no_grad():
                value = self._whole(parameter).detach()
            yield name, value

    def layout(self) -> dict[str, Any]:
        """Return names, data types, shapes and the adapter's settings as plain JSON values: a part of every offer."""
        found = self.metadata()
        return {
            "names": [one.name for one in found],
            "dtypes": [str(one.dtype).removeprefix("torch.") for one in found],
            "shapes": [list(one.shape) for one in found],
            "adapter": self._adapter,
        }

    @property
    def on_gpu(self) -> bool:
        """Return whether the parameters are on a GPU."""
        return any(one.device.type == "cuda" for _, one in self._parameters)


def metadata_of(offer: Mapping[str, Any]) -> list[ParamMeta]:
    """Return the metadata that ``ParameterSource.layout`` described."""
    rows = zip(offer["names"], offer["dtypes"], offer["shapes"], strict=True)
    return [ParamMeta(name, getattr(torch, dtype), tuple(shape)) for name, dtype, shape in rows]


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
