"""Images in prompts: engine and learner agree on every token through updates in flight, and bad images fail.

The engine is a tiny model of one family: a Qwen3-VL in CI, one after the other in `make soak`.
"""

import asyncio
import copy
import io
import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pixels
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.engine.images import RefusedImage, decoded
from turnwise.agents.engine.request import Completion, Sampling
from turnwise.agents.errors import EngineFailed
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image, ImageSpan, Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.weights.base import Link, transport
from turnwise.agents.weights.source import ParameterSource
from turnwise.records import Message, Sample, Status, Trajectory
from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.database import open_database
from turnwise.tests.agents.engine.parity import LEAST_TOKENS, TOLERANCE, WORDS
from turnwise.tests.agents.engine.vision_models import new_vision_family
from turnwise.tests.agents.pictures import READABLE, UNREADABLE, png
from turnwise.tests.store.making import sqlite_store
from turnwise.tests.trainer.learner.test_batch import step
from turnwise.trainer.learner.model.loading import load_model
from turnwise.trainer.learner.model.token_scores import TokenScorer
from turnwise.trainer.learner.model.vision import vision_tower
from turnwise.trainer.learner.samples import samples
from turnwise.trainer.learner.stored_images import StoredImages

FAMILIES = [
    "qwen3_vl",
    pytest.param("qwen2_5_vl", marks=pytest.mark.soak),
    pytest.param("llava", marks=pytest.mark.soak),
]
SESSIONS, TURNS, TOKENS, UPDATES, WINDOW = 12, 4, 30, 4, 3


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_vision_family(request.param, tmp_path_factory.mktemp("vision") / "model", WORDS)


@pytest.fixture(scope="module")
def engine(ray: Any, run: Any, model: Path) -> Iterator[Any]:
    actor = start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), model, 512)
    run(actor.info.remote())
    yield actor
    ray.kill(actor)


class Reference:
    """The learner's model, whose weights change and are sent to an engine."""

    def __init__(self, folder: Path, engine: Any) -> None:
        torch.set_num_threads(1)
        self.model = load_model(folder, "cpu")
        self.snapshots: dict[int, Any] = {}
        self._scorer = TokenScorer(self.model, 1.0)
        self._generator = torch.Generator().manual_seed(1)
        self._engine = engine
        named = dict(self.model.named_parameters())
        tower = set(vision_tower(self.model).parameters())
        self._trained = [named, {name: one for name, one in named.items() if one not in tower}]
        self._senders = [transport("shm").sender(ParameterSource(one.items()), Link()) for one in self._trained]

    async def update(self, version: int) -> None:
        """Change the weights and load them in flight: all of them, or those of a learner with a frozen vision tower."""
        trained, sender = self._trained[version % 2], self._senders[version % 2]
        with torch.no_grad():
            for parameter in trained.values():
                spread = parameter.std() if parameter.numel() > 1 else parameter.abs()
                parameter.add_(torch.randn(parameter.shape, generator=self._generator) * 0.3 * spread)
        self.snapshots[version] = copy.deepcopy(self.model.state_dict())
        sender.write()
        offer = sender.offer(0, (await self._engine.info.remote())["incarnation"])
        sending = asyncio.create_task(asyncio.to_thread(sender.send, 0))
        await self._engine.update_weights.remote(offer, version)
        await sending

    def logprobs(self, sample: Sample) -> torch.Tensor:
        """Return the log-probability of each token after the first one."""
        ids = torch.from_numpy(sample.tokens).long()
        with torch.no_grad():
            logits = self._scorer.logits(ids, torch.arange(len(ids)), [len(ids)], sample.images)[:-1]
        scores: torch.Tensor = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
        return scores

    def close(self) -> None:
        for sender in self._senders:
            sender.close()


def observation(renderer: Renderer, session: int, turn: int) -> list[bytes]:
    """Return the images of a turn: of several sizes, some shared by all sessions, some resized by the processor."""
    sizes = ((84, 84), (112, 84), (150, 90))
    images = [png(*sizes[(session + turn) % 3], seed=100 * session + turn)]
    return [*images, png(60, 45, seed=7)] if turn == 1 else images


@pytest.mark.slow
def test_engine_and_learner_agree_through_updates_in_flight(
    ray: Any, engine: Any, run: Any, model: Path, tmp_path: Path
) -> None:
    """Every token of episodes whose context began again twice, because their window of images was full.

    Of every second one, each turn ends with the control token of an image, which a policy may sample.
    """
    renderer, reference, contents = load_renderer(model), Reference(model, engine), dict[str, bytes]()
    control = reference.model.config.image_token_id
    crossed = 0

    async def session(client: PolicyClient, number: int) -> Trajectory:
        nonlocal crossed
        conversation, messages = Conversation(renderer, "w1 w2", WINDOW), list[Message]()
        for turn in range(TURNS):
            images = observation(renderer, number, turn)
            shown = [Image.of(one) for one in images]
            contents.update({one.blob: content for one, content in zip(shown, images, strict=True)})
            messages.append(conversation.observe(f"w{number} w{turn}", shown))
            prompt, spans = conversation.prompt(), conversation.images()
            answer = await client.generate(f"s{number}", prompt, TOKENS, 60, None, spans, contents)
            crossed += len(set(answer.versions)) > 1
            last = control if number % 2 else answer.tokens[-1]
            messages.append(conversation.act([*answer.tokens[:-1], last], answer.logprobs, answer.versions))
        steps = [step(turn, 2 * turn + 1, 0.0) for turn in range(TURNS)]
        return Trajectory(f"t{number}", "r", "g", number, 0, Status.COMPLETED, steps=steps, messages=messages)

    async def play() -> list[Trajectory]:
        client = PolicyClient([engine], Sampling(stop=()))
        await reference.update(0)
        running = [asyncio.ensure_future(session(client, number)) for number in range(SESSIONS)]
        for version in range(1, UPDATES):
            await asyncio.sleep(0.2)
            await reference.update(version)
        played = await asyncio.gather(*running)
        await client.close()
        return played

    played = run(play())
    reference.close()
    assert crossed >= 3, "no request ran through an update"
    with closing(open_database(sqlite_store(tmp_path))) as database:
        with database.transaction() as tx:
            blobs = [NewBlob.of(content, PNG) for content in contents.values()]
            database.blobs.insert(tx.conn, {one.hash: one for one in blobs}, datetime.now(UTC))
        roots = [samples(one, StoredImages(database, model)) for one in played]
    assert [[len(root.images) for root in one] for one in roots] == [[3, 3, 3]] * SESSIONS
    assert [sum(int(root.mask.sum()) for root in one) for one in roots] == [TURNS * TOKENS] * SESSIONS
    worst, count = 0.0, 0
    for version, weights in reference.snapshots.items():
        reference.model.load_state_dict(weights)
        for root in itertools.chain(*roots):
            mask = torch.from_numpy((root.versions == version) & (root.mask == 1) & (root.tokens != control))[1:]
            if mask.any():
                found = reference.logprobs(root) - torch.from_numpy(root.logprobs)[1:]
                worst, count = max(worst, found[mask].abs().max().item()), count + int(mask.sum())
    assert count >= LEAST_TOKENS
    assert worst <= TOLERANCE


@pytest.mark.slow
def test_a_prompt_with_a_bad_image_fails_with_its_reason(engine: Any, run: Any, model: Path) -> None:
    conversation, picture = Conversation(load_renderer(model)), png(84, 84)
    conversation.observe("w1", [Image.of(picture)])
    prompt, (span,) = conversation.prompt(), conversation.images()
    broken = picture[: len(picture) // 2]
    other = Image.of(broken).blob

    async def ask(spans: list[ImageSpan], contents: Mapping[str, bytes]) -> str:
        client = PolicyClient([engine], Sampling(stop=()))
        with pytest.raises(EngineFailed) as caught:
            await client.generate("s", prompt, 4, 60, None, spans, contents)
        await client.close()
        return str(caught.value)

    run(engine.use_loaded_weights.remote(0))
    assert "has 8 tokens in the prompt, and the engine's processor makes 9" in run(
        ask([replace(span, length=8)], {span.blob: picture})
    )
    not_its_own = "has tokens in the prompt that are not those of an image"
    for wrong in ([replace(span, offset=span.offset + 1)], [replace(span, offset=len(prompt) - 3)], [span, span]):
        assert not_its_own in run(ask(wrong, {span.blob: picture}))
    assert "an image cannot be decoded" in run(ask([replace(span, blob=other)], {other: broken}))
    assert "another content than its hash" in run(ask([replace(span, blob="0" * 64)], {"0" * 64: picture}))
    assert "has 33 images, and the engine takes 32" in run(ask([span] * 33, {span.blob: picture}))


@pytest.mark.slow
def test_an_image_that_the_engine_does_not_keep_is_sent_again(engine: Any, run: Any, model: Path) -> None:
    """As after a request that was aborted while it waited for weights, or that a smaller one overtook."""
    conversation, picture = Conversation(load_renderer(model)), png(84, 84, seed=99)
    conversation.observe("w1", [Image.of(picture)])
    prompt, (span,) = conversation.prompt(), conversation.images()

    async def ask() -> Completion:
        client = PolicyClient([engine], Sampling(stop=()))
        client._replicas[0]._sent.add(span.blob)
        answer = await client.generate("s", prompt, 4, 60, None, [span], {span.blob: picture})
        await client.close()
        return answer

    run(engine.use_loaded_weights.remote(0))
    assert len(run(ask()).tokens) == 4


@pytest.mark.slow
def test_an_image_of_a_window_is_sent_once(engine: Any, run: Any, model: Path) -> None:
    async def play() -> list[int]:
        client, conversation = PolicyClient([engine], Sampling(stop=())), Conversation(load_renderer(model), "", WINDOW)
        before, contents = await engine.info.remote(), dict[str, bytes]()
        for turn in range(6):
            picture = png(84, 84, seed=1000 + turn)
            contents[Image.of(picture).blob] = picture
            conversation.observe("w1", [Image.of(picture)])
            prompt, spans = conversation.prompt(), conversation.images()
            answer = await client.generate("s", prompt, 2, 60, None, spans, contents)
            conversation.act(answer.tokens, answer.logprobs, answer.versions)
        await client.close()
        after = await engine.info.remote()
        return [after[name] - before[name] for name in ("received_images", "shown_images")]

    run(engine.use_loaded_weights.remote(0))
    assert run(play()) == [6, 1 + 2 + 3 * 4]


@pytest.mark.parametrize("name", READABLE)
def test_a_picture_of_another_mode_is_read_as_rgb(name: str) -> None:
    picture = decoded(READABLE[name])
    assert (picture.mode, picture.size) == ("RGB", (84, 84))


def test_a_transparent_pixel_has_no_hidden_color() -> None:
    buffer = io.BytesIO()
    pixels = np.array([[[255, 0, 0, 0], [255, 0, 0, 255], [0, 0, 0, 51]]], np.uint8)
    Pixels.fromarray(pixels).save(buffer, "PNG")
    assert np.asarray(decoded(buffer.getvalue())).tolist() == [[[255, 255, 255], [255, 0, 0], [204, 204, 204]]]


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_picture_that_cannot_be_read_or_is_too_large_is_refused(name: str) -> None:
    content, reason = UNREADABLE[name]
    with pytest.raises(RefusedImage, match=f"^{reason}"):
        decoded(content)


def test_bytes_that_are_no_picture_are_refused() -> None:
    for content in (b"", b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(RefusedImage, match="an image cannot be decoded"):
            decoded(content)
