"""Sample conversations with a real engine while its weights change, and score the same tokens with the learner.

The learner's model is the one that a run trains: its weights reach the engine by a weight transport, its attention is
the packed one, and several conversations share a micro-batch.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import numpy as np
import torch
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig, refuse_unservable
from turnwise.agents.engine.request import Sampling
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.weights.base import Link, WeightSender, transport
from turnwise.agents.weights.source import ParameterSource
from turnwise.records import Message, Sample
from turnwise.tests.trainer.learner.model.parity.families import MAX_CONTEXT, new_family_model
from turnwise.tests.trainer.learner.model.parity.tokenizers import TEXT
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.learner.model.loading import load_model
from turnwise.trainer.learner.model.supported import refuse_unsupported
from turnwise.trainer.learner.model.token_scores import TokenScorer, score_with
from turnwise.trainer.learner.packing import pack

SETTINGS = EngineConfig(kv_cache_memory_bytes=32 << 20)
TOLERANCE = 1e-4
"""Nats, in float32 on a CPU."""
TEMPERATURE = 0.8
CONVERSATIONS = 16
TURNS = 3
TOKENS_PER_TURN = 32
"""Most tokens of a turn in the first two conversations; each further pair has one more, so that turns do not all end
together."""
MIN_UPDATES, MAX_UPDATES = 3, 10
"""More than ``MIN_UPDATES`` only while no turn ran through one: on a busy machine, turns may end before it arrives."""
STEPS_PER_UPDATE = 10
"""Engine steps before each update at least; a turn takes more."""
SECONDS_PER_TURN = 120.0
SECONDS_PER_FAMILY = 240.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well engine and learner agree."""

    family: str
    tokens: int
    """Sampled tokens that were compared."""
    updated_turns: int
    """Turns whose tokens have more than one version: an update was loaded while they were sampled."""
    versions: int
    max_difference: float
    """Largest difference of two log-probabilities of a token, in nats."""
    max_difference_of_versions: float
    """The same difference under the weights before each token's own version: the updates change that much."""
    seconds: float
    tolerance: float = TOLERANCE
    """Bound of ``max_difference``."""
    least_tokens: int = 1000

    @property
    def problems(self) -> list[str]:
        """Reasons to reject the result."""
        wrong = {
            f"{self.family}: differs by {self.max_difference:g} nats": self.max_difference > self.tolerance,
            f"{self.family}: only {self.tokens} tokens": self.tokens < self.least_tokens,
            f"{self.family}: no turn ran through an update": self.updated_turns < 1,
            f"{self.family}: updates change nothing": self.max_difference_of_versions < max(0.01, 2 * self.tolerance),
        }
        return [problem for problem, holds in wrong.items() if holds]

    def json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


class Agreeing:
    """One family: its model, its engine, and the weights of every version."""

    tolerance = TOLERANCE
    least_tokens = 1000
    conversations = CONVERSATIONS
    max_context = MAX_CONTEXT
    noise = 0.1
    """Size of a change of the weights, in standard deviations of each parameter."""

    def __init__(
        self, family: str, folder: Path, settings: EngineConfig = SETTINGS, device: str = "cpu", lora_rank: int = 0
    ) -> None:
        """Make the model on ``device`` and start the engine, for a LoRA adapter if it has a rank; Ray must be up."""
        self.family = family
        self.folder = self.new_model(folder)
        self.device = device
        refuse_unservable(refuse_unsupported(self.folder), settings, self.max_context)
        self.engine = start_engine(settings, self.folder, self.max_context, lora_rank=lora_rank)
        self.model = load_model(self.folder, device)
        self.link = Link(engines_on_gpu=settings.tensor_parallel_size > 0)
        self.weights: list[dict[str, torch.Tensor]] = []
        self._version = -1
        self._updated_turns = 0
        self._generator = torch.Generator().manual_seed(1)

    def new_model(self, folder: Path) -> Path:
        """Make the model and return its folder."""
        return new_family_model(self.family, folder)

    async def measure(self, transport_name: str = "shm") -> Agreement:
        """Sample, score and compare; the weights reach the engine by this transport, whose sender sends nothing."""
        started = monotonic()
        self.weights, self._version, self._updated_turns = [], -1, 0
        sender = self.sender(transport_name)
        chat = load_renderer(self.folder)
        client = PolicyClient([self.engine], Sampling(tuple(chat.stop_tokens), TEMPERATURE))
        await self._load(self._new_weights(sender))
        async with asyncio.timeout(SECONDS_PER_FAMILY), asyncio.TaskGroup() as playing:
            played = [playing.create_task(self._play(client, chat, number)) for number in range(self.conversations)]
            while not self._has_enough_updates:
                written = self._new_weights(sender)
                start = await self._steps()
                while await self._steps() < start + STEPS_PER_UPDATE:
                    await asyncio.sleep(0.01)
                await self._load(written)
        samples = [sample for one in played for sample in one.result()]
        await client.close()
        sender.close()
        return self._compare(samples, started)

    def sender(self, transport_name: str) -> WeightSender:
        """Return the learner's side of a transport."""
        return transport(transport_name).sender(ParameterSource(self.model.named_parameters()), self.link)

    def change(self) -> None:
        """Change what the engine receives."""
        with torch.no_grad():
            for parameter in self.model.parameters():
                noise = torch.randn(parameter.shape, generator=self._generator).to(self.device)
                parameter.add_(noise * self.noise * parameter.std())

    def scored_weights(self) -> dict[str, torch.Tensor]:
        """Return a copy of the weights by which the model scores the tokens of the present version."""
        return {name: value.detach().clone() for name, value in self.model.named_parameters()}

    @property
    def _has_enough_updates(self) -> bool:
        return self._version >= (MIN_UPDATES if self._updated_turns else MAX_UPDATES)

    async def _play(self, client: PolicyClient, chat: Renderer, number: int) -> list[TrainSample]:
        """Play conversations until there were enough updates, and return their samples."""
        played = [await self._converse(client, chat, number)]
        while not self._has_enough_updates:
            played.append(await self._converse(client, chat, number))
        return played

    async def _converse(self, client: PolicyClient, chat: Renderer, number: int) -> TrainSample:
        """Play one conversation of ``TURNS`` turns, and return its sample."""
        random = Random(number)
        conversation = Conversation(chat, "Reply with one action." if number % 2 else "")
        messages = []
        for _ in range(TURNS):
            messages.append(conversation.observe(random.choice(TEXT)[: 10 + 2 * number]))
            prompt = conversation.prompt()
            done = await client.generate(f"c{number}", prompt, TOKENS_PER_TURN + number // 2, SECONDS_PER_TURN)
            messages.append(conversation.act(done.tokens, done.logprobs, done.versions))
            self._updated_turns += len(set(done.versions)) > 1
        return as_sample(messages)

    async def _steps(self) -> int:
        """Return the steps of the engine so far."""
        return int((await self.engine.info.remote())["steps"])

    def _new_weights(self, sender: WeightSender) -> dict[str, Any]:
        """Change the weights, except before the first version, and offer them to the engine."""
        if self.weights:
            self.change()
        self.weights.append(self.scored_weights())
        sender.write()
        return sender.offer(0, "")

    async def _load(self, written: dict[str, Any]) -> None:
        """Load weights into the engine as the next version."""
        await self.engine.update_weights.remote(written, self._version + 1)
        self._version += 1

    def _compare(self, samples: Sequence[TrainSample], started: float) -> Agreement:
        micro_batch = pack(samples, self.device)
        scorer = TokenScorer(self.model, TEMPERATURE)
        scores = []
        for weights in self.weights:
            scores.append(score_with(scorer, micro_batch, weights))
        differences = (torch.stack(scores) - micro_batch.behavior_logprobs).abs()
        own = differences.gather(0, micro_batch.versions[None])
        before = differences.gather(0, (micro_batch.versions[None] - 1).clamp(min=0))[:, micro_batch.versions > 0]
        used = int(micro_batch.versions.unique().numel())
        figures = len(micro_batch.targets), self._updated_turns, used, float(own.max()), float(before.max())
        return Agreement(self.family, *figures, round(monotonic() - started, 1), self.tolerance, self.least_tokens)


def as_sample(messages: Sequence[Message]) -> TrainSample:
    """Return a conversation whose messages are a path of the message tree, each trained on where it was sampled."""
    path = [one for one in messages if one.parent is None][-1].index
    kept = [one for one in messages if one.index >= path]
    columns = [np.concatenate([getattr(one, name) for one in kept]) for name in ("tokens", "mask")]
    logprobs, versions = (np.concatenate([getattr(one, name) for one in kept]) for name in ("logprobs", "versions"))
    tokens, mask = columns[0].astype(np.int32), columns[1].astype(np.uint8)
    size = len(tokens)
    zeros = np.zeros(size, np.int32)
    sample = Sample(
        "conversation",
        tokens,
        mask,
        logprobs.astype(np.float32),
        versions.astype(np.int32),
        zeros,
        zeros,
        mask.astype(np.int8) - 1,
        [],
    )
    return TrainSample(sample, "group", zeros.astype(np.float32), mask.astype(np.float32), zeros)


async def measure_all(agreeing: Sequence[Agreeing]) -> list[Agreement]:
    """Measure families, and end their engines."""
    import ray

    found: list[Agreement] = []
    try:
        for one in agreeing:
            found.append(await one.measure())
    finally:
        for one in agreeing:
            ray.kill(one.engine)
    return found
