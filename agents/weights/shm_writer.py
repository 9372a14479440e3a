"""The trainer's side of a weight update on one machine: parameters in shared memory.

``WeightWriter`` allocates one buffer of fixed size and copies the parameters into it on each ``write``. The result of
``write`` goes to ``Engine.update_weights``, whose worker maps the same buffer (``shm_receiver``). The buffer begins
with a generation number: an engine that reads while the trainer writes detects it and fails instead of serving a
mixture.

By default the buffer is anonymous memory, which the kernel frees when the trainer ends, however it ends.
"""

import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

GENERATION_BYTES = 64
_ALIGNMENT = 64
_WRITING = -1


def read_generation(buffer: mmap.mmap) -> int:
    """Return the number of the write that the buffer holds; -1 during a write."""
    value: int = struct.unpack_from("<q", buffer)[0]
    return value


class WeightWriter:
    """Copies named parameters into a buffer that the engines on this machine map; tied weights are copied once.

    The parameters are kept by reference: each ``write`` copies their current values. With ``folder`` the buffer is a
    file there (for engines in another PID namespace); without, it is anonymous memory.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, "torch.nn.Parameter"]],
        folder: str | Path | None = None,
        whole: Callable[["torch.Tensor"], "torch.Tensor"] = lambda value: value,
        adapter: Mapping[str, Any] | None = None,
    ) -> None:
        """Allocate the buffer.

        Args:
            folder: holds the buffer's file.
            whole: returns a parameter as one tensor, where it is sharded.
            adapter: PEFT's settings of a LoRA adapter, if the parameters are those of the adapter.
        """
        import torch

        self._whole = whole
        self._adapter = None if adapter is None else dict(adapter)
        parameters: dict[int, tuple[str, torch.nn.Parameter]] = {}
        for name, parameter in named_parameters:
            parameters.setdefault(id(parameter), (name, parameter))
        self._parameters = list(parameters.values())
        self._generation = 0
        self._layout: dict[str, list[Any]] = {"names": [], "dtypes": [], "shapes": [], "offsets": []}
        size = 0
        for name, parameter in self._parameters:
            self._layout["names"].append(name)
            self._layout["dtypes"].append(str(parameter.dtype).removeprefix("torch."))
            self._layout["shapes"].append(list(parameter.shape))
            self._layout["offsets"].append(size)
            size += -(-parameter.numel() * parameter.element_size() // _ALIGNMENT) * _ALIGNMENT
        self._descriptor, self.path, self._file = _open(folder)
        os.ftruncate(self._descriptor, GENERATION_BYTES + size)
        self._buffer = mmap.mmap(self._descriptor, GENERATION_BYTES + size)
        self._views = [
            torch.frombuffer(
                self._buffer, dtype=parameter.dtype, count=parameter.numel(), offset=GENERATION_BYTES + offset
            ).view(parameter.shape)
            for (_, parameter), offset in zip(self._parameters, self._layout["offsets"], strict=True)
        ]

    def write(self) -> dict[str, Any]:
        """Copy the current parameters; return the argument of ``Engine.update_weights``, in plain JSON values.

        Every engine must have finished reading the previous write.
        """
        import torch

        self._generation += 1
        struct.pack_into("<q", self._buffer, 0, _WRITING)
        with torch.no_grad():
            for view, (_, parameter) in zip(self._views, self._parameters, strict=True):
                view.copy_(self._whole(parameter))
        struct.pack_into("<q", self._buffer, 0, self._generation)
        return {"path": self.path, "generation": self._generation, **self._layout, "adapter": self._adapter}

    def close(self) -> None:
        """Free the memory; engines keep the weights that they loaded."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if self._file is not None:
                self._file.unlink(missing_ok=True)


def _open(folder: str | Path | None) -> tuple[int, str, Path | None]:
    if folder is None:
        descriptor = os.memfd_create("turnwise-weights")
        return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}", None
    descriptor, name = tempfile.mkstemp(prefix="weights-", dir=folder)
    return descriptor, name, Path(name)
