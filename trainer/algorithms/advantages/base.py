"""The base classes of advantage estimators, over a batch and over one group at a time, and the model they may train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

from pydantic import PrivateAttr

from ....errors import TurnwiseError
from ....records import ScoredGroup, Trajectory
from ..component import Component
from ..groups import Credit

if TYPE_CHECKING:
    from torch import Tensor

TokenLogprobs: TypeAlias = "Sequence[Sequence[Tensor]]"
"""Log-probabilities of sampled tokens in nats, ``values[trajectory][turn]``: float32 (tokens of the turn,). A turn that
a branch shares with its parent has no tokens in the branch: they are the parent's."""


class TokenModel(Protocol):
    """A trainable copy of the reference policy, with its own optimizer. The learner provides it.

    The reference policy is the policy that training began with, or ``model.reference``. Every method makes forward
    passes over all tokens of the trajectories: call it in ``AdvantageEstimator.__call__`` only.
    """

    def logprobs(self, trajectories: Sequence[Trajectory]) -> TokenLogprobs:
        """Return the log-probabilities under this model, without gradient."""

    def reference_logprobs(self, trajectories: Sequence[Trajectory]) -> TokenLogprobs:
        """Return the log-probabilities under the reference policy, without gradient."""

    def step(
        self, trajectories: Sequence[Trajectory], loss: Callable[[TokenLogprobs], Tensor], learning_rate: float
    ) -> float:
        """Take one optimizer step on ``loss``, and return the loss before the step.

        Args:
            loss: a scalar function of the log-probabilities under this model, differentiable in each of them.
        """

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the state of the optimizer by name."""

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what ``tensors`` returned."""


class AdvantageEstimator(Component, ABC):
    """Credit per turn or per token, from the groups of a whole batch.

    Derive from this class where an advantage depends on other groups, as with whitening over the batch; otherwise from
    ``GroupAdvantage``.
    """

    slot: ClassVar[str] = "advantage"
    default: ClassVar[str] = "grpo"
    needs_token_model: ClassVar[bool] = False
    """Whether the estimator trains a ``TokenModel``. It costs two more copies of the weights in memory, the state of an
    optimizer, and the file of both in every checkpoint."""

    _token_model: TokenModel | None = PrivateAttr(None)

    @property
    def token_model(self) -> TokenModel:
        """Return the model that this estimator trains.

        Raises:
            TurnwiseError: there is none, because ``needs_token_model`` is false or the run has not given it yet.
        """
        if self._token_model is None:
            raise TurnwiseError(
                "the advantage estimator has no token model: set `needs_token_model = True` in its class, and call "
                "`bind_token_model` before the first update"
            )
        return self._token_model

    def bind_token_model(self, model: TokenModel) -> None:
        """Use ``model`` as ``token_model``. Called once, before the state of a checkpoint is restored."""
        self._token_model = model

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the token model, if there is one."""
        return {} if self._token_model is None else self._token_model.tensors()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the token model; without tensors, it stays a copy of the reference policy."""
        if tensors:
            self.token_model.load_tensors(tensors)

    @abstractmethod
    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return the advantages of each group, in the order of ``groups``.

        Called once per update, in the learner's thread and before the policy is updated. A group holds its scored
        members: their steps with ``state_key``, their messages with tokens, their status, and the shaped rewards.
        """


class GroupAdvantage(AdvantageEstimator, ABC):
    """Credit per turn or per token, from the members of one group."""

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return the advantages of each group, which do not depend on the other groups."""
        return [self.of_group(scored) for scored in groups]

    @abstractmethod
    def of_group(self, scored: ScoredGroup) -> Credit:
        """Return the advantages of the members of a group, in the order of ``scored.group.trajectories``."""
