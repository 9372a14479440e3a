"""The protocol of a learner backend, and its errors. Importable without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

from ....agents.weights.base import Link, WeightSender
from ....errors import FAILED, TurnwiseError
from ...algorithms.advantages.base import TokenModel
from ...algorithms.groups import TrainSample
from ...config.sections import LearnerConfig

if TYPE_CHECKING:
    from ..provenance.recording import LogprobTrace
    from ..sft import SftExample


class RankFailed(TurnwiseError):
    """A rank of the learner died or does not answer. All ranks are ended; the last checkpoint is whole."""

    exit_code = FAILED


class RanksLate(RankFailed):
    """The ranks of the learner did not start in time, for example because the cluster has too few GPUs."""


class LearnerBackend(Protocol):
    """Weights, optimizer and update of a policy. Every method blocks."""

    config: LearnerConfig
    passed: list[int]
    """Tokens that the present update has trained on, and those of all its epochs; zeros outside of it or if unknown."""

    def update(
        self,
        samples: Sequence[TrainSample],
        lr_progress: float,
        update: int,
        stream: Random,
        trace: LogprobTrace | None = None,
    ) -> dict[str, float]:
        """Train on a batch and return its metrics by name.

        Args:
            samples: the batch, in ``num_minibatches`` optimizer steps of whole episodes, ``num_epochs`` times.
            lr_progress: share of the learning rate schedule that has passed, 0 to 1.
            update: updates done before this one; the rate rises over the first ``lr_warmup_steps``.
            stream: the random stream that shuffles the minibatches.
            trace: receives the log-probabilities and the entropies of the trained tokens.

        Raises:
            TurnwiseError: the loss or gradient of an optimizer step is NaN or infinite, or a rank died. The steps
                before it may have been applied.
        """

    def fit(self, examples: Sequence[SftExample], learning_rate: float, observation_weight: float) -> float:
        """Take one supervised step, with an optimizer that the next update drops, and return the loss before it."""

    def load_reference(self, folder: str | Path) -> None:
        """Load the frozen weights of the reference policy, for a loss or an advantage estimator that needs it.

        Raises:
            TurnwiseError: ``folder`` is not a model folder.
        """

    def token_model(self) -> TokenModel:
        """Return a new trainable copy of the reference policy, for an advantage estimator that needs it.

        Raises:
            TurnwiseError: the reference policy is not loaded, or the backend has no token model.
        """

    def node(self) -> str:
        """Return the Ray node of the process that sends the weights. Ray must be up."""

    def weights(self, transport: str, link: Link) -> WeightSender:
        """Return the sender of the weights.

        Args:
            transport: the name of a weight transport.
            link: of the first rank.

        Raises:
            TurnwiseError: no transport has this name.
        """

    def weights_hash(self) -> str:
        """Return the hash of the weights (``recording.weights_hash``); empty where repeated sums have other bits."""

    def save(self, folder: Path) -> None:
        """Write the model in Hugging Face format, and the optimizer's state, into an existing folder.

        Raises:
            OSError, SafetensorError: a file could not be written.
        """

    def load_optimizer(self, folder: Path) -> None:
        """Load the optimizer's state of a folder that ``save`` wrote, with any backend and number of ranks."""

    def close(self) -> None:
        """Free everything; no other method is called afterwards."""
