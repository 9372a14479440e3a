"""A template that writes the opening tag of the reasoning itself."""

from pathlib import Path

from turnwise.tests.agents.tokens.test_conversation import TEMPLATES, act, new_chat, sampled_ids


def test_reasoning_that_the_template_opened_is_a_part_of_the_action(tmp_path: Path) -> None:
    opened = TEMPLATES["reasoning"][0].replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    chat = new_chat(tmp_path, opened, "<|im_end|>")
    conversation = chat.begin()
    conversation.observe("task")
    tokens = sampled_ids(chat, " why not </think>click 23")
    assert conversation.text(tokens) == "<think>\n why not </think>click 23"
    assert conversation.text(sampled_ids(chat, "<think> why </think>click")) == "<think> why </think>click"
    assert conversation.text(chat.stop_tokens[:1]) == ""
    assert act(conversation, tokens).tokens == tokens, "what was sampled is trained on, and nothing else"
    conversation.observe("lamp")
    assert conversation.text(tokens).startswith("<think>\n")
