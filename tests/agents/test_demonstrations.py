"""Encode stored episodes of an expert as messages that the policy's own conversation would contain."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from turnwise.agents.demonstrations import DemonstrationEncoder, context_tokens, with_messages
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.errors import TurnwiseError
from turnwise.records import NO_VERSION, Role, Source, Status, Step, Trajectory
from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.database import open_database
from turnwise.tests.agents.pictures import png
from turnwise.tests.store.making import sqlite_store
from turnwise.tests.trainer.scored_groups import scored_group

TURNS = [("task find the lamp", "click lamp"), ("lamp 23", "answer 23")]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> TextRenderer:
    words = ["task", "find", "the", "lamp", "click", "answer", "23"]
    return TextRenderer(new_model(tmp_path_factory.mktemp("m") / "m", words, layers=1))


def episode(source: Source = Source.EXPERT) -> Trajectory:
    steps = [
        Step(turn, observation, "", action, 0.0, {}, False, False, True, "", None, 0.0, 0.0)
        for turn, (observation, action) in enumerate(TURNS)
    ]
    return Trajectory("t", "eval", "g", 0, 0, Status.COMPLETED, source, "oracle", steps=steps)


def test_the_tokens_are_those_of_the_policys_conversation(chat: TextRenderer) -> None:
    encoded = with_messages(episode(), chat, "find")
    conversation = Conversation(chat, "find")
    expected = []
    for observation, action in TURNS:
        expected.append(conversation.observe(observation))
        ids = chat.encode_completion(action)
        expected.append(conversation.act(ids, [0.0] * len(ids), [0] * len(ids)))
    assert [list(one.tokens) for one in encoded.messages] == [list(one.tokens) for one in expected]
    assert [one.parent for one in encoded.messages] == [None, 0, 1, 2]
    assert [one.role for one in encoded.messages] == [Role.USER, Role.ASSISTANT] * 2
    assert [step.message for step in encoded.steps] == [1, 3]
    assert with_messages(episode(), chat, "find") == encoded
    assert context_tokens(encoded) == sum(len(one.tokens) for one in expected)


def test_no_token_of_an_expert_looks_sampled(chat: TextRenderer) -> None:
    turns = [one for one in with_messages(episode(), chat, "").messages if one.role is Role.ASSISTANT]
    assert {one.source for one in turns} == {Source.EXPERT}
    assert not any(any(one.mask) for one in turns)
    assert all(version == NO_VERSION for one in turns for version in one.versions)
    assert all(math.isnan(value) for one in turns for value in one.logprobs)


def test_sampled_tokens_are_never_encoded_again(chat: TextRenderer) -> None:
    conversation = Conversation(chat)
    messages = [conversation.observe("task"), conversation.act([3], [-0.5], [0])]
    with pytest.raises(ValueError, match="never encoded again"):
        with_messages(replace(episode(Source.POLICY), messages=messages), chat, "")


def test_the_images_of_an_expert_are_those_of_the_policys_context(tmp_path: Path) -> None:
    words = ["task", "find", "the", "lamp", "click", "answer", "23"]
    folder = new_vision_model(tmp_path / "vision", words, hidden=32, layers=1)
    blobs = [NewBlob.of(png(56, 56, seed), PNG) for seed in range(2)]
    database = open_database(sqlite_store(tmp_path))
    with database.transaction() as tx:
        database.blobs.insert(tx.conn, {one.hash: one for one in blobs}, datetime.now(UTC))
    plain = episode()
    shown = replace(
        plain, steps=[replace(one, images=[blob.hash]) for one, blob in zip(plain.steps, blobs, strict=True)]
    )
    group = scored_group([[0.0, 1.0]])
    group = replace(group, group=replace(group.group, trajectories=(shown,)), rewards=[[0.0, 1.0]])
    encoder = DemonstrationEncoder(database, folder, 512, 1)
    (encoded,) = encoder(group).group.trajectories
    conversation = Conversation(load_renderer(folder), encoder._system(group.group), 1)
    for turn, (observation, action) in enumerate(TURNS):
        seen = conversation.observe(observation, [Image.of(png(56, 56, turn))])
        assert encoded.messages[2 * turn] == seen
        assert (seen.parent, list(seen.images)) == (None, [blobs[turn].hash])
        conversation.append_external(action, Source.EXPERT)
    text = new_model(tmp_path / "text", words, layers=1)
    with pytest.raises(TurnwiseError, match="cannot be a demonstration: this policy reads text only"):
        DemonstrationEncoder(database, text, 512, 1)(group)
    database.close()
