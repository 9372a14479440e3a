"""AdamW's state as named tensors."""

from collections.abc import Mapping

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
