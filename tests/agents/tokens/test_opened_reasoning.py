"""A template that writes the opening tag of the reasoning itself."""

from pathlib import Path

import pytest
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.records import Source
from turnwise.tests.agents.tokens.chats import TEMPLATES, act, new_chat, sampled_ids

OPENED = TEMPLATES["reasoning"][0].replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


@pytest.fixture
def chat(tmp_path: Path) -> TextRenderer:
    return new_chat(tmp_path, OPENED, "<|im_end|>")


def test_it_is_a_part_of_an_action_with_the_end_of_the_reasoning_and_of_one_that_was_cut(chat: TextRenderer) -> None:
    conversation = Conversation(chat)
    conversation.observe("task")
    tokens = sampled_ids(chat, " why not </think>click 23")
    assert conversation.text(tokens) == "<think>\n why not </think>click 23"
    assert conversation.text(sampled_ids(chat, "<think> why </think>click")) == "<think>\nwhy </think>click"
    assert conversation.text(sampled_ids(chat, "click 23")) == "click 23"
    assert conversation.text(sampled_ids(chat, "click 23", stop=False)) == "<think>\nclick 23"
    assert conversation.text(chat.stop_tokens[:1]) == ""
    assert act(conversation, tokens).tokens == tokens, "what was sampled is trained on, and nothing else"
    conversation.observe("lamp")
    assert conversation.text(tokens).startswith("<think>\n")


@pytest.mark.parametrize("action", ["click 23", "<think>\nwhy not </think>click 23"])
def test_an_action_from_elsewhere_is_read_again_as_it_was(chat: TextRenderer, action: str) -> None:
    conversation = Conversation(chat)
    conversation.observe("task")
    for tokens in (list(conversation.append_external(action, Source.EXPERT).tokens), chat.encode_completion(action)):
        assert "<think>" not in chat.encoder.decode(tokens), "the template writes it"
        assert conversation.text(tokens) == action
