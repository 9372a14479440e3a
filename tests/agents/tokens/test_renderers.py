"""A family of chat templates is one file, which decides what a conversation may hold."""

import json
from pathlib import Path

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens import renderers
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import ChatMessage, ToolCall
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.records import Role, Source

FAMILY = """
from turnwise.agents.tokens.renderer import Parsed, Rendered, ToolCall
from turnwise.agents.tokens.renderers.text import TextRenderer

MODEL_TYPES = {"words"}


class RENDERER(TextRenderer):
    "Messages of any role in any order, as words; a turn is the call of a tool."

    def render(self, messages, previous):
        known = 0 if previous is None else previous.state
        text = " ".join(part for one in messages[known:] if not one.tokens for part in one.content)
        tokens = self.encoder.encode(text, {}, start=previous is None)
        return Rendered(tokens, is_root=previous is None, state=len(messages))

    def parse(self, tokens):
        name, _, arguments = self.turn_text(tokens).partition(" ")
        return Parsed("", [ToolCall(name, arguments)])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add the family, and return a model folder of it."""
    (tmp_path / "of_words.py").write_text(FAMILY)
    monkeypatch.setattr(renderers, "__path__", [*renderers.__path__, str(tmp_path)])
    model = new_model(tmp_path / "model", ["task", "find", "lamp", "click", "23"], layers=1)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "words"}))
    return model


def test_a_file_serves_the_models_of_its_family(folder: Path, tmp_path: Path) -> None:
    assert type(load_renderer(folder)).__name__ == "RENDERER"
    assert type(load_renderer(new_model(tmp_path / "other", ["task"], layers=1))) is TextRenderer


def test_a_renderer_decides_what_a_conversation_holds(folder: Path) -> None:
    renderer = load_renderer(folder)
    conversation = Conversation(renderer, "find")
    first = conversation.observe("task")
    second = conversation.add([ChatMessage(Role.TOOL, ("lamp",)), ChatMessage(Role.USER, ("23",))])
    turn = renderer.encode_completion("click lamp")
    answer = conversation.act(turn, [-0.5] * len(turn), [0] * len(turn))
    third = conversation.add([ChatMessage(Role.TOOL, ("task",))])
    messages = (first, second, answer, third)
    assert [one.parent for one in messages] == [None, 0, 1, 2]
    assert [one.role for one in messages] == [Role.USER, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert [one.source for one in messages] == [Source.TEMPLATE, Source.ENV, Source.POLICY, Source.ENV]
    assert renderer.encoder.decode(conversation.prompt()) == "find task lamp 23 click lamp task"
    assert renderer.parse(turn).calls == [ToolCall("click", "lamp")]
    with pytest.raises(ValueError, match="cannot replace 1 turns: the context holds 1 complete turns"):
        conversation.replace_turns(1, "click", Source.PATCH)
