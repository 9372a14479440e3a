"""Images of stored messages: placed in the tokens that they stand for, or their group is not trained on."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.records import Message, Status, Trajectory
from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.database import Database, open_database
from turnwise.tests.agents.pictures import UNREADABLE, png
from turnwise.tests.store.making import sqlite_store
from turnwise.tests.trainer.learner.model.image_samples import VOCABULARY, conversation
from turnwise.tests.trainer.learner.test_batch import HISTORY, group, step
from turnwise.tests.trainer.scored_groups import scored
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.learner.batch import UnreadableImage, assemble
from turnwise.trainer.learner.samples import samples
from turnwise.trainer.learner.stored_images import StoredImages

PICTURES = [png(112, 84, 2), png(60, 45, 3)]
BROKEN = png(84, 84, 5)[:-400]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_vision_model(tmp_path_factory.mktemp("vision") / "model", VOCABULARY, hidden=64, seed=2)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(sqlite_store(tmp_path))
    with opened.transaction() as tx:
        bad = [content for content, _ in UNREADABLE.values()]
        blobs = [NewBlob.of(content, PNG) for content in (*PICTURES, BROKEN, *bad)]
        opened.blobs.insert(tx.conn, {one.hash: one for one in blobs}, datetime.now(UTC))
    yield opened
    opened.close()


def played(folder: Path, number: int = 1) -> list[Message]:
    return conversation(load_renderer(folder), number, PICTURES)


def episode(name: str, messages: list[Message], *rewards: float) -> Trajectory:
    steps = [step(turn, 2 * turn + 1, reward) for turn, reward in enumerate(rewards)]
    return Trajectory(name, "r", "g", 0, 0, Status.COMPLETED, steps=steps, messages=messages)


def test_a_sampled_token_of_an_image_stands_for_no_image(folder: Path, database: Database) -> None:
    messages = played(folder)
    (one,) = samples(episode("a", messages, 0.0, 1.0), StoredImages(database, folder))
    control = one.tokens[one.images[0].offset]
    assert [image.content for image in one.images] == PICTURES
    assert [image.length for image in one.images] == [12, 4]
    for image in one.images:
        inside = slice(image.offset, image.offset + image.length)
        assert set(one.tokens[inside]) == {control}
        assert not one.mask[inside].any()
        assert control not in one.tokens[[inside.start - 1, inside.stop]]
    assert (one.tokens == control).sum() == 16 + 1  # one sampled


def test_a_context_that_began_again_has_no_sampled_tokens_of_images(folder: Path, database: Database) -> None:
    renderer = load_renderer(folder)
    (control,) = renderer.encoder.encode("<|image_pad|>", {}, start=False)
    shown = [Image.of(one) for one in PICTURES]
    one = Conversation(renderer, max_images=1)
    one.observe("w1", shown[:1])
    one.act([control, renderer.stop_tokens[0]], [-1.0] * 2, [0] * 2)
    root = one.observe("w2", shown[1:])
    (found,) = StoredImages(database, folder)(root)
    assert root.parent is None
    assert list(root.tokens).count(control) == 4
    assert (found.blob, found.length, [found.offset]) == (shown[1].blob, 4, [span.offset for span in one.images()])


def test_images_that_are_not_those_of_the_tokens_are_refused(folder: Path, database: Database) -> None:
    images, seen = StoredImages(database, folder), played(folder)[0]
    larger, tokens = NewBlob.of(PICTURES[0], PNG).hash, list(seen.tokens)
    pad = images(seen)[1].offset
    runs = r"its tokens have images of \[12, 4\] tokens, and its images have"
    for bad, reason in [
        (replace(seen, images=seen.images[:1]), rf"{runs} \[12\]"),
        (replace(seen, images=seen.images[::-1]), rf"{runs} \[4, 12\]"),
        (replace(seen, images=[*seen.images, *seen.images]), rf"{runs} \[12, 4, 12, 4\]"),
        (replace(seen, images=[larger, larger]), rf"{runs} \[12, 12\]"),
        (replace(seen, tokens=[*tokens[:pad], *tokens[pad + 1 :]]), r"have images of \[12, 3\] tokens"),
        (replace(seen, tokens=[*tokens[:pad], *tokens[pad:][:1], *tokens[pad:]]), r"have images of \[12, 5\] tokens"),
        (replace(seen, tokens=[*tokens[: pad + 1], 0, *tokens[pad + 2 :]]), r"have images of \[12\] tokens"),
        (replace(seen, images=[seen.images[0], "0" * 64]), "does not hold it"),
        (replace(seen, images=[NewBlob.of(BROKEN, PNG).hash]), "an image cannot be decoded"),
        (replace(seen, mask=[1] * len(seen.mask)), "the policy sampled tokens of it"),
    ]:
        with pytest.raises(UnreadableImage, match=reason):
            images(bad)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_stored_picture_that_cannot_be_read_is_refused_by_its_hash(
    folder: Path, database: Database, name: str
) -> None:
    content, reason = UNREADABLE[name]
    hash_, seen = NewBlob.of(content, PNG).hash, played(folder)[0]
    with pytest.raises(UnreadableImage, match=f"^image {hash_[:12]}: {reason}"):
        StoredImages(database, folder)(replace(seen, images=[hash_]))


def test_a_group_with_an_unreadable_image_is_not_trained_on(folder: Path, database: Database) -> None:
    def versions(messages: list[Message]) -> list[Message]:
        return [replace(one, versions=[3 if sampled else -1 for sampled in one.mask]) for one in messages]

    good, bad = versions(played(folder)), versions(played(folder, 2))
    bad[0] = replace(bad[0], images=bad[0].images[:1])
    batch = assemble(
        [
            scored(group(episode("a", good, 0.0, 0.0), episode("b", good, 0.0, 1.0), name="good")),
            scored(group(episode("c", good, 0.0, 0.0), episode("d", bad, 0.0, 1.0), name="bad")),
        ],
        HISTORY,
        2,
        1,
        advantage=GRPO(),
        filters=(),
        loss=DecoupledPPO(),
        streams=(),
        images=StoredImages(database, folder),
    )
    assert (batch.groups, batch.expired) == (["good"], [])
    assert list(batch.unreadable) == ["bad"]
    assert "its images have [12]" in batch.unreadable["bad"]
    assert {one.group for one in batch.samples} == {"good"}
    assert all(len(one.sample.images) == 2 for one in batch.samples)
