"""The window of images: a new one drops the oldest, and each turn is trained on with the context it was sampled in."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image, ImageSpan, Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.records import Message, Source
from turnwise.tests.agents.pictures import png

WORDS = [f"w{number}" for number in range(12)]
PICTURES = [Image.of(png(28 * (1 + number), 56)) for number in range(4)]


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return load_renderer(new_vision_model(tmp_path_factory.mktemp("vision") / "model", WORDS, hidden=32, layers=1))


def context(messages: Sequence[Message], last: int) -> list[int]:
    """Return the token ids on the path from a root to a message."""
    path, index = list[list[int]](), last
    while True:
        path.append(list(messages[index].tokens))
        parent = messages[index].parent
        if parent is None:
            return [token for tokens in reversed(path) for token in tokens]
        index = parent


def shown(spans: Sequence[ImageSpan]) -> list[str]:
    return [span.blob for span in spans]


@given(
    turns=st.lists(st.lists(st.sampled_from(PICTURES), max_size=3), min_size=1, max_size=8),
    window=st.integers(3, 5),
)
def test_the_context_has_the_newest_images_and_all_texts(
    renderer: Renderer, turns: list[list[Image]], window: int
) -> None:
    conversation = Conversation(renderer, "", window)
    messages, so_far = list[Message](), list[str]()
    for number, images in enumerate(turns):
        before = conversation.prompt()
        seen = conversation.observe(WORDS[number], images)
        so_far += [image.blob for image in images]
        prompt = conversation.prompt()
        assert shown(conversation.images()) == so_far[-window:]
        assert renderer.encoder.decode(prompt).split() == [
            word for one in range(number + 1) for word in ([WORDS[one - 1]] if one else []) + [WORDS[one]]
        ]
        drops = len(so_far) > window and bool(images)
        assert (seen.parent is None) is (drops or number == 0)
        assert drops or prompt[: len(before)] == before
        if seen.parent is None:
            assert list(seen.images) == so_far[-window:]
        tokens = renderer.encode_completion(WORDS[number])
        messages += [seen, conversation.act(tokens, [-0.5] * len(tokens), [0] * len(tokens))]
        assert context(messages, messages[-1].index) == [*prompt, *tokens]


def test_an_image_that_is_shown_twice_is_dropped_once(renderer: Renderer) -> None:
    conversation = Conversation(renderer, "", 2)
    for word in ("w1", "w2"):
        conversation.observe(word, [PICTURES[0]])
        conversation.append_external(word, Source.EXPERT)
    conversation.observe("w3", [PICTURES[1]])
    assert shown(conversation.images()) == [PICTURES[0].blob, PICTURES[1].blob]


def test_a_turn_is_replaced_after_an_image_was_dropped(renderer: Renderer) -> None:
    """A patch of the last turn keeps the images that its observation was answered with."""
    conversation = Conversation(renderer, "", 1)
    for word in ("w1", "w2"):
        conversation.observe(word, [PICTURES[0]])
        conversation.append_external(word, Source.EXPERT)
    conversation.replace_turns(1, "w5", Source.PATCH)
    message = conversation.observe("w6")
    assert shown(conversation.images()) == [PICTURES[0].blob]
    assert renderer.encoder.decode(conversation.prompt()) == "w1 w1 w2 w5 w6"
    assert message.parent is not None
