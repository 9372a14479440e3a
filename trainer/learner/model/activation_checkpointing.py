"""Activation checkpointing: the backward pass computes each decoder layer again instead of keeping its activations.

The second computation is outside the forward call, so it sets the sequence lengths of the first one again.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from ....errors import TurnwiseError
from . import packed_attention as attention
from .vision import language_model, vision_tower


def decoder_layers(model: Any) -> list[nn.Module]:
    """Return the decoder layers of a Hugging Face model, in their order.

    Raises:
        TurnwiseError: the class of the model marks no layers.
    """
    layers = [module for module in language_model(model).modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise TurnwiseError(
            f"`{type(model).__name__}` marks no decoder layers, so neither `learner.activation_checkpointing` nor "
            '`learner.backend = "fsdp"` can be used with this model: turn them off'
        )
    return layers


def checkpoint_activations(model: Any) -> None:
    """Compute each decoder layer again in the backward pass, and each layer of a vision tower.

    Raises:
        TurnwiseError: the class of the model marks no layers.
    """
    layers = decoder_layers(model)
    layers += [one for one in vision_tower(model).modules() if isinstance(one, GradientCheckpointingLayer)]
    for layer in layers:
        layer.forward = partial(_checkpointed, layer.forward)


def _checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    lengths = attention.current_lengths()

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), attention.packed(lengths)

    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, context_fn=contexts, **kwargs)
