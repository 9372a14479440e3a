"""A run of a tiny model on episodes of random tokens, in a real store, without engines."""

import json
import math
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from turnwise.agents.model_folder import reads_images
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image, Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.records import NO_VERSION, GroupState, Message, PolicyVersion, Role, Status
from turnwise.store import queries
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import rows_of
from turnwise.store.operations import Rewards
from turnwise.tests.agents.pictures import png
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.store.making import call, group, records, trajectory
from turnwise.tests.trainer.learner.train_samples import VOCABULARY
from turnwise.tests.trainer.playing import run_context
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.checkpoint import CheckpointManager
from turnwise.trainer.learner.update import UpdateStep
from turnwise.trainer.run.state import RunState

GROUPS, MEMBERS, TURNS = 2, 3, 2
BASE: dict[str, Any] = {
    "name": "r",
    "seed": 4,
    "environments": [{"id": "e"}],
    "rollout": {"groups_per_batch": GROUPS, "max_staleness": 1},
    "learner": {"learning_rate": 1e-2, "lr_warmup_steps": 1, "max_tokens_per_micro_batch": 24},
    "checkpoint": {"keep_last": 1},
}
SEVERAL_STEPS = {**BASE["learner"], "num_minibatches": 2, "num_epochs": 2}


def tiny_model(folder: Path) -> Path:
    """Return the folder of the model that the run begins with."""
    return new_model(folder, VOCABULARY, hidden=32, heads=2, seed=3)


def tiny_vision_model(folder: Path) -> Path:
    """Return the folder of a model that reads images."""
    return new_vision_model(folder, VOCABULARY, hidden=32, heads=2, layers=1, seed=3)


def play(stage: Stage, number: int, version: int, renderer: Renderer | None = None) -> None:
    """Store a ready group of episodes with random tokens and rewards, sampled by one version.

    Args:
        renderer: adds a picture to each observation; the context holds the newest one alone.
    """
    name, stream = f"g{number}", Random(number)
    call(stage.database, "open_group", group=group(name, size=MEMBERS, seed=number % 2))
    for member in range(MEMBERS):
        one = f"{name}-{member}"
        call(stage.database, "start_trajectory", trajectory=trajectory(one, name, member))
        shown = None if renderer is None else Conversation(renderer, max_images=1)
        for index in range(TURNS):
            steps, messages = records(index)
            if shown is None:
                rows = rows_of(steps, [_random(message, version, stream) for message in messages])
            else:
                picture = png(28 * stream.randint(1, 3), 56, stream.randrange(4))
                seen, answer = shown.observe("w1", [Image.of(picture)]), _random(messages[1], version, stream)
                messages = [seen, shown.act(list(answer.tokens), list(answer.logprobs), list(answer.versions))]
                steps = [replace(step, images=seen.images) for step in steps]
                rows = rows_of(steps, messages, {digest(picture): picture})
            call(stage.database, "append", trajectory=one, rows=rows)
        call(stage.database, "finish_trajectory", trajectory=one, status=Status.COMPLETED, reward=0.0)
    call(stage.database, "close_group", group=name, state=GroupState.SCORING)
    scores = [Rewards(f"{name}-{member}", [stream.random() for _ in range(TURNS)]) for member in range(MEMBERS)]
    call(stage.database, "score_group", group=name, number=number, state=GroupState.READY, rewards=scores)


def _random(message: Message, version: int, stream: Random) -> Message:
    count = stream.randint(1, 4)
    sampled = message.role is Role.ASSISTANT
    return replace(
        message,
        tokens=[stream.randrange(len(VOCABULARY)) for _ in range(count)],
        mask=[int(sampled)] * count,
        logprobs=[-3 * stream.random() if sampled else math.nan for _ in range(count)],
        versions=[version if sampled else NO_VERSION] * count,
    )


class Process:
    """One process of run ``r``: it begins with ``model``, or resumes from the newest checkpoint."""

    def __init__(self, stage: Stage, chosen: dict[str, Any], model: Path, saved: PolicyVersion | None = None) -> None:
        self.stage = stage
        self.config: RunConfig = parse_config(BASE | chosen)
        self.streams = Streams(self.config.seed)
        self.context = run_context(stage, self.config, self.streams)
        algorithms = self.context.algorithms
        self.state = RunState()
        folder = Path(saved.checkpoint) if saved else model
        config = self.config
        self.learner = Learner(folder, config.learner, algorithms.loss, algorithms.proximal, config.rollout.temperature)
        self.tokenizer = self.context.folder / "tokenizer"
        shutil.copytree(model, self.tokenizer, dirs_exist_ok=True)
        self.renderer = load_renderer(model) if reads_images(model) else None
        if saved:
            state = json.loads((folder / checkpoint.STATE).read_text())
            self.learner.load_optimizer(folder)
            algorithms.load_component_states(state["components"], state["observed"], state["drawn"])
            algorithms.load_component_tensors(checkpoint.read_component_tensors(folder))
            self.streams.load_state_dict(state["streams"])
            self.state.current = saved
        self.folder = folder

    async def train(self, first_group: int, updates: int, save_at: int = 0) -> None:
        """Make so many updates, each of two new groups, and save a checkpoint at the first one and at ``save_at``."""
        store = self.stage.store()
        if self.state.current is None:
            self.state.current = PolicyVersion("r", await store.add_version(0, None), None, 0)
            await self._save()
        if self.config.needs_reference:
            with self.stage.database.read() as conn:
                self.learner.load_reference(queries.checkpoints(conn, "r")[0].checkpoint)
        step = UpdateStep(self.context, self.learner, await store.read(queries.versions))
        for number in range(updates):
            version = self.state.version
            for one in range(GROUPS):
                play(self.stage, first_group + GROUPS * number + one, version.id, self.renderer)
            progress = self.config.lr_progress(version.update, 0.0)
            result = await step.update(await step.lease(), version, progress, 0.0)
            assert result is not None
            self.state.current = step.history[result.version]
            if result.update == save_at:
                await self._save()

    async def _save(self) -> None:
        store = self.stage.store()
        manager = CheckpointManager(
            self.context,
            self.learner,
            await store.uid(),
            self.folder,
            lambda: self.state.checkpoint_json(self.context, {}),
        )
        await manager.save(self.state.version.id)


def past_run(tmp_path: Path, chosen: dict[str, Any], scenario: Callable[[Stage], Awaitable[None]]) -> str:
    """Record run ``r``, which ``scenario`` trains, and return the URL of its store."""
    config = parse_config(BASE | chosen).resolved()

    async def recorded(stage: Stage) -> None:
        await stage.store().create(config=config, config_hash="c", kind="train", code_version="0")
        await scenario(stage)

    on_stage(tmp_path, recorded)
    return f"sqlite:///{tmp_path}/turnwise.db"
