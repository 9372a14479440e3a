"""The page on an encoded episode shows what the renderer makes of the chat template of SmolLM2."""

import runpy
from pathlib import Path

import pytest
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.tests.agents.tokens.chats import TEMPLATES, new_chat

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "encoded_episode.py"))


def test_sampled_and_added_tokens_alternate(tmp_path: Path) -> None:
    messages = list(EXAMPLE["episode"](new_chat(tmp_path, *TEMPLATES["chatml"])))
    assert [set(message.mask) for message in messages] == [{0}, {1}, {0}, {1}]
    assert [message.parent for message in messages] == [None, 0, 1, 2]


@pytest.mark.slow
def test_the_page_shows_the_output(smollm2: Path) -> None:
    chat = TextRenderer(smollm2)
    shown = "\n".join(line.rstrip() for line in EXAMPLE["lines"](chat, EXAMPLE["episode"](chat)))
    assert shown in (ROOT / "docs" / "guide" / "encoded_episode.md").read_text()
