"""The learner's weights as a stream, gathered one parameter at a time; the interface of vLLM's ``WeightSource``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


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
