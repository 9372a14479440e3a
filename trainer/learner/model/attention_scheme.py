"""How the attention of a layer differs from full causal attention: a sliding window, a soft cap, attention sinks."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class AttentionScheme:
    """The attention of one layer; every token attends to itself and to earlier tokens of its own sequence."""

    scale: float | None = None
    """Factor of the products of queries and keys; None is one over the square root of the head size."""
    window: int | None = None
    """A token attends to this many tokens, itself included; None is all of them."""
    softcap: float | None = None
    """The scores ``s`` become ``softcap * tanh(s / softcap)``; None leaves them."""
    sinks: Tensor | None = None
    """(heads,): a score per head that takes part in the softmax, without a value; None has no sinks."""
