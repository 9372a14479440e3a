"""AdamW's moments in the host's memory, except during the optimizer step."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


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
