"""The learner on several ranks: one Ray actor each, with weights and optimizer sharded over them by FSDP2.

* Every method is called on all ranks. One error on any rank ends all of them, because the others would wait for it.
* A version is published whole or not at all: an engine serves weights only after every rank has taken part in gathering
  them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from threading import Lock
from time import monotonic
from typing import Any

from safetensors import SafetensorError

from ....agents.model_folder import loading_allowance_s
from ....agents.placement import OFF_SANDBOX_NODES, reason_of_loss
from ....agents.weights.base import EngineLost, Link
from ....errors import TurnwiseError
from ...algorithms.advantages.base import TokenModel
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import PolicyLoss
from ...algorithms.proximal.base import ProximalPolicy
from ...config.sections import LearnerConfig
from ..provenance.recording import LogprobTrace
from ..sft import SftExample
from .base import RankFailed, RanksLate
from .rank import LearnerRank, RankSpec, RankUpdate
from .ranks import COLLECTIVE_TIMEOUT_S

START_TIMEOUT_S = 600.0
"""Seconds the ranks may take to start; an allowance for the model is added."""
STRAGGLER_TIMEOUT_S = COLLECTIVE_TIMEOUT_S + 60
"""Seconds a rank may take longer than the first one that has finished; an allowance for the model is added."""
CALL_TIMEOUT_S = 1800.0
"""Seconds a call other than an update may take; an allowance for the model is added."""
UPDATE_TIMEOUT_S = 6 * 3600.0
"""Seconds an update may take."""
CAUSE_TIMEOUT_S = 5.0
"""Seconds to wait for the death of a rank after another one failed: it names the cause."""


class _RankActor(LearnerRank):
    """A rank as a Ray actor."""

    def listen_on_node(self) -> tuple[str, int]:
        """Open the socket at which the ranks meet, on the address of this node alone."""
        import ray.util

        return self.listen(ray.util.get_node_ip_address())


class FsdpLearner:
    """The driver's side: implements ``LearnerBackend`` with ``learner.num_ranks`` actors."""

    def __init__(
        self, model: str | Path, config: LearnerConfig, loss: PolicyLoss, proximal: ProximalPolicy, temperature: float
    ) -> None:
        """Start the ranks and load the folder ``model`` on each. Ray must be up.

        Raises:
            TurnwiseError: a rank did not start, or the model cannot be sharded.
        """
        import ray

        self.config = config
        self.passed = [0, 0]
        self.loss = loss
        self.proximal = proximal
        self._allowance_s = loading_allowance_s(Path(model))
        self._calling = Lock()
        """Held while a call is given to all ranks: two threads' calls have the same order on each."""
        size = config.num_ranks
        gpus = 1 if config.device == "cuda" else 0
        actor = ray.remote(_RankActor).options(num_cpus=0, num_gpus=gpus, max_restarts=0, **OFF_SANDBOX_NODES)
        self.actors = [actor.remote(rank, size) for rank in range(size)]
        self._logs: list[str] = []
        """Path of the log of each rank on its node, once all have started."""
        timeout_s = START_TIMEOUT_S + self._allowance_s
        try:
            address = ray.get(self.actors[0].listen_on_node.remote(), timeout=START_TIMEOUT_S)
        except (ray.exceptions.ActorUnschedulableError, TimeoutError) as error:
            self.close()
            late = f"rank 0 of {size} of the learner did not start within {START_TIMEOUT_S:g} s"
            raise RanksLate(f"{late}: {error}. {_placement(size, gpus)}") from error
        except ray.exceptions.RayTaskError as error:
            self.close()
            raise TurnwiseError(f"rank 0 of {size} of the learner cannot open a socket: {error.cause}") from error
        except ray.exceptions.RayError as error:
            self.close()
            reason = reason_of_loss(error)
            raise RankFailed(f"rank 0 of {size} of the learner died during its start: {reason}") from error
        settings, objective, anchor = (one.model_dump(mode="json") for one in (config, loss, proximal))
        collective_timeout_s = COLLECTIVE_TIMEOUT_S + self._allowance_s
        spec = RankSpec(str(model), settings, objective, anchor, temperature, collective_timeout_s)
        hint = _placement(size, gpus)
        until = monotonic() + timeout_s
        self._logs = self._call("log_file", timeout_s=timeout_s, hint=hint)
        self._call("connect", address, spec, timeout_s=until - monotonic(), hint=hint)

    def update(
        self,
        samples: Sequence[TrainSample],
        lr_progress: float,
        update: int,
        stream: Random,
        trace: LogprobTrace | None = None,
    ) -> dict[str, float]:
        """Train on a batch and return its metrics by name (``LearnerBackend.update``)."""
        import ray

        states = self.loss.state_dict(), self.proximal.state_dict()
        results: list[RankUpdate] = self._call(
            "update", ray.put(samples), lr_progress, update, stream, states, timeout_s=UPDATE_TIMEOUT_S
        )
        first = results[0]
        stream.setstate(first.stream)
        self.loss.load_state_dict(first.states[0])
        self.proximal.load_state_dict(first.states[1])
        if trace is not None:
            for result in results:
                trace.current.update(result.trace.current)
                trace.proximal.update(result.trace.proximal)
                trace.entropy.update(result.trace.entropy)
                trace.first_step |= result.trace.first_step
        return dict(first.metrics)

    def fit(self, examples: Sequence[SftExample], learning_rate: float, observation_weight: float) -> float:
        """Take one supervised step, with an optimizer that the next update drops, and return the loss before it."""
        loss: float = self._call("fit", examples, learning_rate, observation_weight)[0]
        return loss

    def load_reference(self, folder: str | Path) -> None:
        """Load the frozen weights of the reference policy, sharded too.

        Raises:
            TurnwiseError: ``folder`` is not a model folder.
        """
        self._call("load_reference", str(folder))

    def token_model(self) -> TokenModel:
        """Raise: the configuration refuses estimators that need a token model with this backend.

        Raises:
            TurnwiseError: always.
        """
        raise TurnwiseError('a token model needs the reference policy in one process: set `learner.backend = "local"`')

    def node(self) -> str:
        """Return the Ray node of the first rank."""
        name: str = self._call("node")[0]
        return name

    def weights(self, transport: str, link: Link) -> FsdpWeights:
        """Return the sender of the weights.

        Raises:
            TurnwiseError: no transport has this name.
        """
        return FsdpWeights(self._call, self._call("open_weights", transport, link)[0])

    def weights_hash(self) -> str:
        """Return an empty string: the order of sums depends on the number of ranks."""
        return ""

    def save(self, folder: Path) -> None:
        """Write the model in Hugging Face format, and the optimizer's state, into an existing folder of a file system
        that all ranks share.

        Raises:
            OSError, SafetensorError: a file could not be written.
        """
        self._call("save", str(folder.resolve()))

    def load_optimizer(self, folder: Path) -> None:
        """Load the optimizer's state of a folder that ``save`` wrote, with any backend and number of ranks."""
        self._call("load_optimizer", str(folder.resolve()))

    def close(self) -> None:
        """End all ranks."""
        import ray

        for actor in self.actors:
            ray.kill(actor)

    def _call(self, method: str, *arguments: Any, timeout_s: float | None = None, hint: str = "") -> list[Any]:
        """Return the results of a method of all ranks, in their order.

        Args:
            timeout_s: for the whole call; ``CALL_TIMEOUT_S`` and the allowance without it. From the time at which a
                rank has finished, ``STRAGGLER_TIMEOUT_S`` bounds the call too.
            hint: what to do if the ranks are late, for a call that waits until they have started.

        Raises:
            RankFailed: a rank died, failed or did not answer; all ranks are ended.
            TurnwiseError, OSError, SafetensorError: as the method raises; all ranks are ended.
        """
        import ray

        with self._calling:
            references = [getattr(actor, method).remote(*arguments) for actor in self.actors]
        began = monotonic()
        deadline = began + (CALL_TIMEOUT_S + self._allowance_s if timeout_s is None else timeout_s)
        pending = list(references)
        while pending:
            done, pending = ray.wait(pending, num_returns=1, timeout=max(0.0, deadline - monotonic()))
            if not done:
                missing = [references.index(one) for one in pending]
                self.close()
                late = f"ranks {missing} of the learner did not finish `{method}` within {monotonic() - began:.0f} s"
                raise RanksLate(f"{late}. {hint}") if hint else RankFailed(late)
            for one in done:
                try:
                    ray.get(one)
                except ray.exceptions.RayError:
                    raise self._failure(method, references) from None
            deadline = min(deadline, monotonic() + STRAGGLER_TIMEOUT_S + self._allowance_s)
        return list(ray.get(references))

    def _failure(self, method: str, references: Sequence[Any]) -> Exception:
        """End all ranks, and return the error behind the others: the death of a rank before an exception."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            ray.wait(list(references), num_returns=len(references), timeout=CAUSE_TIMEOUT_S)
        raised: list[Exception] = []
        dead: dict[int, str] = {}
        for rank, reference in enumerate(references):
            try:
                ray.get(reference, timeout=0)
            except ray.exceptions.RayTaskError as error:
                raised.append(error.cause)
            except ray.exceptions.GetTimeoutError:
                continue
            except ray.exceptions.OutOfMemoryError as error:
                dead[rank] = f": {reason_of_loss(error)}"
            except ray.exceptions.RayError:
                dead[rank] = ""
        self.close()
        if dead:
            numbers = ", ".join(map(str, dead))
            logs = ", ".join(self._logs[rank] for rank in dead if self._logs)
            where = f"; on its node, {logs} may show why" if logs else ""
            when = f"`{method}`" if self._logs else "its start"
            reason = next(filter(None, dead.values()), "")
            return RankFailed(f"rank {numbers} of {len(references)} of the learner died during {when}{reason}{where}")
        for one in raised:
            if isinstance(one, TurnwiseError | OSError | SafetensorError) and not isinstance(one, RankFailed):
                return one
        reasons = "; ".join(map(str, raised))
        # A start that fails without a death would fail again; an update may have met other values.
        kind = TurnwiseError if method in ("log_file", "connect") else RankFailed
        return kind(f"the learner's ranks failed during `{method}`: {reasons}")


def _placement(ranks: int, gpus_per_rank: int) -> str:
    """Return what to check if ranks do not start."""
    free = f"{ranks * gpus_per_rank} free GPUs for it" if gpus_per_rank else f"memory for {ranks} ranks"
    return f"Check with `ray status` that the cluster has {free}"


class FsdpWeights:
    """The senders of all ranks: implements ``WeightSender``."""

    def __init__(self, call: Callable[..., list[Any]], keeps_weights: bool) -> None:
        """Send what all ranks hold.

        Args:
            call: calls a method of all ranks, and returns their results.
            keeps_weights: that of the ranks' senders.
        """
        self._call = call
        self.keeps_weights = keeps_weights
        self._kept: dict[str, Any] = {}
        """The offer of all engines, which needs no rank: the ranks may be training."""

    def write(self) -> None:
        """Take the present weights on all ranks."""
        self._call("write_weights")
        if self.keeps_weights:
            self._kept = self._call("offer_weights", 0, "")[0]

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return the offer of the first rank."""
        if self.keeps_weights:
            return self._kept
        found: dict[str, Any] = self._call("offer_weights", engine, incarnation)[0]
        return found

    def send(self, engine: int) -> None:
        """Send the weights from the first rank, while all gather them.

        Raises:
            EngineLost: the engine did not receive them.
            RankFailed: a rank died.
        """
        if self.keeps_weights:
            return
        if reason := self._call("send_weights", engine)[0]:
            raise EngineLost(reason)

    def close(self) -> None:
        """Do nothing: the memory ends with the ranks."""
