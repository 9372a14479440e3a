"""The hash of a model's weights: two models with one hash have the same weights, bit for bit."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor


def weights_hash(parameters: Iterable[tuple[str, Tensor]]) -> str:
    """Return the SHA-256 of the parameters with their names, types and shapes, in the order of the names, in hex.

    A parameter counts with the SHA-256 of its values, row by row.
    """
    whole = hashlib.sha256()
    for name, value in sorted(parameters, key=lambda one: one[0]):
        values = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        whole.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        whole.update(hashlib.sha256(values.data).digest())
    return whole.hexdigest()
