"""Prepare a run for training: learner, checkpoints, the first version, warm-up, first evaluations.

A new model goes through a supervised warm-up, and so does a given one if `sft_warmup.source` is set. Meanwhile the
engines evaluate the untrained model.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic

from ...agents.tokens.renderers import load_renderer
from ...agents.weights.base import WeightSender
from ...envs.base import checked_actions
from ...records import PolicyVersion
from ...store import queries
from ..cluster.actors import Cluster
from ..cluster.weight_link import weight_link
from ..context import RunContext
from ..evaluation.in_run import Evaluator
from ..learner import checkpoint
from ..learner.backends.base import LearnerBackend
from ..learner.backends.fsdp import FsdpLearner
from ..learner.backends.local import Learner
from ..learner.checkpoint import CheckpointManager
from ..preflight.check import check
from ..preflight.refusal import Stage, Subject, refuse
from ..telemetry.events import EvalResult, Note
from ..warmup.random_episodes import Episode
from ..warmup.sft import Actions, right_action, warm_up
from ..warmup.stored_episodes import stored_episodes
from .initial_state import InitialState
from .state import RunState

UPDATE_BEFORE_WARMUP = -1
"""Update number of the weights before the warm-up; training begins from update 0."""
PLAYED_SOURCES: Mapping[str, Actions] = {"random": checked_actions, "oracle": right_action}
"""The sources of a warm-up that are played; any other one is a run of the store."""
OBSERVED_GROUPS_PER_READ = 16
"""Groups that a resume reads from the store at once."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of a run that are ready to train."""

    cluster: Cluster
    learner: LearnerBackend
    weights: WeightSender
    """Sends the learner's weights to the engines."""
    evaluator: Evaluator
    checkpoints: CheckpointManager


class Preparation:
    """Takes a run from its initial state to the version that training starts from."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        initial: InitialState,
        cluster: Cluster,
        evaluator: Evaluator,
    ) -> None:
        self._context = context
        self._state = state
        self._initial = initial
        self._cluster = cluster
        self._evaluator = evaluator

    async def prepare(self, started: float) -> RunParts:
        """Return the parts of the run that training uses; the engines then serve ``RunState.version``.

        Args:
            started: when the command started, on the monotonic clock.

        Raises:
            TurnwiseError: an environment does not suit the policy, an actor did not start, or an evaluation failed.
        """
        context, config, initial = self._context, self._context.config, self._initial
        subject = Subject(config, initial.command, model=initial.model, note=lambda text: context.report(Note(text)))
        refuse(await asyncio.to_thread(check, subject, Stage.ACTORS))
        learner = await asyncio.to_thread(load_learner, context, initial)
        if initial.resumes:
            await self._load_reference(learner)
            weights = await self._resume(learner)
        elif config.warmup_source is not None and not initial.is_fork:
            weights = await self._warm_up(learner, started)
        else:
            weights = await self._begin(learner)
        checkpoints = CheckpointManager(
            context,
            learner,
            await context.store.uid(),
            initial.model,
            lambda: self._state.checkpoint_json(context, self._evaluator.results),
        )
        if not initial.resumes:
            await checkpoints.save(self._state.version.id)
            await self._load_reference(learner)
        return RunParts(self._cluster, learner, weights, self._evaluator, checkpoints)

    async def _load_reference(self, learner: LearnerBackend) -> None:
        """Load the reference policy for the components that need it: the configured one, or the checkpoint that
        training began with. An adapted model without its adapter is that policy already.
        """
        config = self._context.config
        if not config.needs_reference:
            return
        first = (await self._context.store.read(queries.checkpoints))[0]
        if (folder := config.reference_folder(Path(first.checkpoint))) is not None:
            await asyncio.to_thread(learner.load_reference, folder)
        if config.advantage.needs_token_model:
            self._context.algorithms.advantage.bind_token_model(await asyncio.to_thread(learner.token_model))

    async def _open_weights(self, learner: LearnerBackend) -> WeightSender:
        """Return the sender of the learner's weights to the engines, which must be up; an offline run has none."""
        engines = await self._cluster.engines.nodes()
        node = await asyncio.to_thread(learner.node) if engines else ""
        name, link = weight_link(self._context.config, node, engines)
        return await asyncio.to_thread(learner.weights, name, link)

    async def _resume(self, learner: LearnerBackend) -> WeightSender:
        """Restore the state of the checkpoint and serve its weights."""
        context, stored = self._context, self._initial.state
        await self._cluster.ready()
        weights = await self._open_weights(learner)
        version = PolicyVersion(context.name, stored["version"], None, stored["update"])
        self._state.current, self._state.trained_s = version, stored["trained_s"]
        self._evaluator.results = {name: EvalResult.of_json(value) for name, value in stored["evaluations"].items()}
        context.algorithms.load_component_states(stored["components"], stored["observed"], stored["drawn"])
        context.algorithms.load_component_tensors(checkpoint.read_component_tensors(self._initial.model))
        context.streams.load_state_dict(stored["streams"])
        await observe_again(context)
        await self._cluster.engines.publish(weights, version.id)
        return weights

    async def _begin(self, learner: LearnerBackend) -> WeightSender:
        """Serve and evaluate the given weights as update 0."""
        await self._cluster.ready()
        weights = await self._open_weights(learner)
        await self._serve_first_version(weights, None)
        await self._evaluator.evaluate("forked" if self._initial.is_fork else "untrained", 0)
        return weights

    async def _warm_up(self, learner: LearnerBackend, started: float) -> WeightSender:
        """Run the warm-up, then serve and evaluate the result as update 0.

        The untrained model, which the engines were started with, is evaluated during the warm-up. If one of the two
        fails, the other ends, and the error is raised.
        """
        context = self._context
        before = await context.store.add_version(UPDATE_BEFORE_WARMUP, None)
        given_up = Event()
        if context.config.evaluation.tasks:
            context.report(Note("the warm-up trains; meanwhile the weights before it are evaluated, as `untrained`"))
        warming = asyncio.ensure_future(asyncio.to_thread(self._train_supervised, learner, given_up))
        evaluating = asyncio.ensure_future(self._evaluate_untrained(before))
        try:
            ended, _ = await asyncio.wait((warming, evaluating), return_when=asyncio.FIRST_EXCEPTION)
            for one in ended:
                one.result()
        finally:
            given_up.set()
            evaluating.cancel()
            await asyncio.gather(warming, evaluating, return_exceptions=True)
        context.report(Note(f"warm-up done, {monotonic() - started:.0f} s after the start"))
        weights = await self._open_weights(learner)
        await self._serve_first_version(weights, before)
        await self._evaluator.evaluate("warmup", 0)
        return weights

    async def _evaluate_untrained(self, version: int) -> None:
        await self._cluster.ready()
        await self._cluster.engines.serve_loaded(version)
        await self._evaluator.evaluate("untrained", UPDATE_BEFORE_WARMUP)

    def _train_supervised(self, learner: LearnerBackend, given_up: Event) -> None:
        config, model = self._context.config, self._initial.model
        source = config.warmup_source
        stored: Sequence[Episode] = ()
        if source is not None and source not in PLAYED_SOURCES:
            stored = stored_episodes(self._context.database, source, config, model)
        warm_up(
            learner,
            load_renderer(model),
            config.environments,
            config.horizon.longest(),
            config.horizon.max_images,
            config.sft_warmup,
            config.seed,
            max(config.rollout.reset_timeout_s, config.rollout.step_timeout_s),
            lambda text: self._context.report(Note(text)),
            lambda: bool(self._state.stop) or given_up.is_set(),
            actions=PLAYED_SOURCES.get(source or "", checked_actions),
            stored=stored,
        )

    async def _serve_first_version(self, weights: WeightSender, parent: int | None) -> None:
        number = await self._context.store.add_version(0, parent)
        self._state.current = PolicyVersion(self._context.name, number, parent, 0)
        await self._cluster.engines.publish(weights, number)


async def observe_again(context: RunContext) -> None:
    """Pass the surviving groups that were scored after the checkpoint to the components, in their order."""
    algorithms, store = context.algorithms, context.store
    if not algorithms.has_observers:
        return
    scorings = await store.read(queries.scored_from, algorithms.observed)
    for start in range(0, len(scorings), OBSERVED_GROUPS_PER_READ):
        part = scorings[start : start + OBSERVED_GROUPS_PER_READ]
        loaded = await store.load_scored([group for _, group in part], texts=algorithms.scoring_needs_texts)
        for (number, _), scored in zip(part, loaded, strict=True):
            algorithms.observe(number, scored)


def load_learner(context: RunContext, initial: InitialState) -> LearnerBackend:
    """Return a learner with the weights of the initial state, and with its optimizer if the run resumes.

    Raises:
        TurnwiseError: a rank did not start, or the model does not suit the backend.
    """
    config, algorithms = context.config, context.algorithms
    backend = FsdpLearner if config.learner.backend == "fsdp" else Learner
    learner = backend(initial.model, config.learner, algorithms.loss, algorithms.proximal, config.rollout.temperature)
    if initial.resumes:
        learner.load_optimizer(initial.model)
    return learner
