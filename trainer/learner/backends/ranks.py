"""The ranks that train one model together, as seen by one of them.

Invariant: all ranks call the methods of ``Ranks`` in the same order. Every collective has a timeout; its
error names the rank and the reason of the collective.

A rank that shards a model holds the whole of it first, in the memory of its host. The ranks of one host therefore load
one after the other, and a device receives its rank's part alone.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from ....errors import TurnwiseError
from ...config.sections import LearnerConfig
from ..model.activation_checkpointing import checkpoint_activations
from ..model.adapter import Adapter
from ..model.loading import load_model, load_policy
from ..model.token_scores import TokenScorer
from .base import RankFailed

T = TypeVar("T")

COLLECTIVE_TIMEOUT_S = 600.0
"""Seconds until a collective fails because another rank does not take part in it. An allowance for the model is
added."""


class Ranks:
    """One rank alone."""

    rank = 0
    size = 1
    is_sharded = False
    """Whether parameters are sharded: tensors of DTensor, whose every use as a whole is a collective."""

    def sum(self, values: Tensor, reason: str) -> Tensor:
        """Return the sum of ``values`` over all ranks."""
        return values

    def gather(self, value: Any, reason: str) -> list[Any]:
        """Return the ``value`` of every rank, in their order: JSON values."""
        return [value]

    def whole(self, value: Tensor) -> Tensor:
        """Return a tensor that may be sharded as a whole one, on every rank."""
        return value

    def own(self, value: Tensor) -> Tensor:
        """Return this rank's part of a tensor that may be sharded, without gradient; it shares the memory."""
        return value.detach()

    def in_turn(self, load: Callable[[], T], reason: str) -> T:
        """Return the result of ``load``; the ranks of one host call it one after the other, because each needs memory
        for a whole model until its parameters are sharded."""
        return load()

    def shard(self, scorer: TokenScorer) -> None:
        """Shard the parameters of a model over the ranks. The gradient becomes the sum over the ranks."""

    @contextmanager
    def doing(self, reason: str) -> Iterator[None]:
        """Inside the ``with`` block, raise an error of a collective with the rank and ``reason``.

        Raises:
            RankFailed: a collective failed.
        """
        yield


class DistributedRanks(Ranks):
    """The ranks of the default process group, with FSDP2."""

    is_sharded = True

    def __init__(self, timeout_s: float = COLLECTIVE_TIMEOUT_S) -> None:
        """``timeout_s`` is that of the process group, for errors."""
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._timeout_s = timeout_s
        self._device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        self._mesh = init_device_mesh(self._device, (self.size,))

    def sum(self, values: Tensor, reason: str) -> Tensor:
        """Return the sum of ``values`` over all ranks."""
        import torch.distributed as dist

        total = values.clone()
        with self.doing(reason):
            dist.all_reduce(total)
        return total

    def gather(self, value: Any, reason: str) -> list[Any]:
        """Return the ``value`` of every rank, in their order: JSON values."""
        import torch.distributed as dist

        data = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8, device=self._device)
        size = torch.tensor([len(data)], device=self._device)
        sizes = [torch.zeros_like(size) for _ in range(self.size)]
        with self.doing(reason):
            dist.all_gather(sizes, size)
            longest = max(int(one) for one in sizes)
            padded = torch.nn.functional.pad(data, (0, longest - len(data)))
            found = [torch.zeros_like(padded) for _ in range(self.size)]
            dist.all_gather(found, padded)
        return [json.loads(bytes(one[: int(count)].cpu().tolist())) for one, count in zip(found, sizes, strict=True)]

    def whole(self, value: Tensor) -> Tensor:
        """Return a tensor that may be sharded as a whole one, on every rank."""
        from torch.distributed.tensor import DTensor

        return value.full_tensor() if isinstance(value, DTensor) else value

    def own(self, value: Tensor) -> Tensor:
        """Return this rank's part of a tensor that may be sharded, without gradient; it shares the memory."""
        from torch.distributed.tensor import DTensor

        return (value.to_local() if isinstance(value, DTensor) else value).detach()

    def in_turn(self, load: Callable[[], T], reason: str) -> T:
        """Return the result of ``load``, which contains no collective; the ranks of one host call it in turn."""
        hosts = self.gather(socket.gethostname(), f"the order of {reason}")
        own_turn = hosts[: self.rank].count(hosts[self.rank])
        results = []
        for turn in range(max(Counter(hosts).values())):
            if turn == own_turn:
                results.append(load())
            self.gather(turn, f"{reason} on other ranks")
        return results[0]

    def shard(self, scorer: TokenScorer) -> None:
        """Shard the parameters of a model over the ranks, and move each rank's part to its device. The gradient becomes
        the sum over the ranks."""
        from torch.distributed.fsdp import (
            FSDPModule,
            MixedPrecisionPolicy,
            fully_shard,
            register_fsdp_forward_method,
        )

        from ..model.activation_checkpointing import decoder_layers

        low = scorer.dtype if scorer.dtype != torch.float32 else None
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)
        for layer in decoder_layers(scorer.model):
            fully_shard(layer, mesh=self._mesh, mp_policy=policy)
        # A pass without gradient has no backward pass that would free the gathered parameters of the root.
        fully_shard(scorer, mesh=self._mesh, mp_policy=policy, reshard_after_forward=True)
        register_fsdp_forward_method(scorer, "logits")
        for module in scorer.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sum

    @contextmanager
    def doing(self, reason: str) -> Iterator[None]:
        """Inside the ``with`` block, raise an error of a collective with the rank and ``reason``.

        Raises:
            RankFailed: a collective failed.
        """
        try:
            yield
        except TurnwiseError:
            raise
        except RuntimeError as error:
            raise RankFailed(
                f"rank {self.rank} of {self.size} of the learner: {reason} failed, because another rank died or did "
                f"not take part within {self._timeout_s:.0f} s, or memory ran out: {error}"
            ) from error


ALONE = Ranks()


def policy_scorer(
    folder: Path, config: LearnerConfig, temperature: float, ranks: Ranks
) -> tuple[TokenScorer, Adapter | None]:
    """Return the model to train and its LoRA adapter; None if all weights are to be trained.

    Raises:
        TurnwiseError: the model cannot be loaded, or the adapter does not suit it or ``config.lora``.
    """

    def load() -> tuple[TokenScorer, Adapter | None]:
        dtype = getattr(torch, config.dtype)
        frozen = torch.float32 if ranks.is_sharded else dtype  # FSDP shards weights of one type
        model, adapter = load_policy(
            folder, _device(config, ranks), config.lora, frozen, trains_vision=config.vision == "trained"
        )
        if config.activation_checkpointing:
            checkpoint_activations(model)
        scorer = TokenScorer(model, temperature, dtype)
        ranks.shard(scorer)
        return scorer, adapter

    return ranks.in_turn(load, "the load of the model")


def reference_scorer(folder: Path, config: LearnerConfig, temperature: float, ranks: Ranks) -> TokenScorer:
    """Return a frozen model.

    Raises:
        TurnwiseError: ``folder`` is not a model folder.
    """
    if not (folder / "config.json").exists():
        raise TurnwiseError(
            f"the reference policy `{folder}` is not a Hugging Face model folder (no config.json): set "
            "`model.reference` to one"
        )

    def load() -> TokenScorer:
        model = load_model(folder, _device(config, ranks)).requires_grad_(False)
        scorer = TokenScorer(model, temperature, getattr(torch, config.dtype))
        ranks.shard(scorer)
        return scorer

    return ranks.in_turn(load, "the load of the reference policy")


def _device(config: LearnerConfig, ranks: Ranks) -> str:
    return "cpu" if ranks.is_sharded else config.device
