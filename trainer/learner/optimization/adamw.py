"""AdamW's state: as named tensors, and its moments in the host's memory except during the optimizer step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


def optimizer_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return AdamW's state as tensors named ``parameter/moment``."""
    return {
        f"{name}/{key}": torch.as_tensor(value).contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def set_optimizer_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restore the tensors of ``optimizer_tensors`` into the optimizer, on the device of each parameter."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, moment = key.rpartition("/")
        optimizer.state[parameters[name]][moment] = value.to(parameters[name].device)


@contextmanager
def moments_on(optimizer: torch.optim.Optimizer, device: str) -> Iterator[None]:
    """Copy the moments to ``device`` for the block, and back to the host's memory after it."""
    move_moments(optimizer, device)
    try:
        yield
    finally:
        move_moments(optimizer, "cpu")


def move_moments(optimizer: torch.optim.Optimizer, device: str) -> None:
    """Move the moments to ``device``; the step counts stay where the fused step of AdamW expects them."""
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.ndim:
                state[name] = value.to(device)
