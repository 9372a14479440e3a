"""Chats with images: each image is a run of control tokens, and nothing else in a prompt is taken for one."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any, cast

import PIL.Image
import pytest
from turnwise.agents.engine.request import Completion
from turnwise.agents.errors import PolicyFailed, UnusableChat
from turnwise.agents.players.policy import PolicyPlayer
from turnwise.agents.rollout.player import PolicyContext
from turnwise.agents.rollout.progress import Progress
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import END, IMAGE, MAX_PIXELS, START, new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image, Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.tokens.renderers.qwen_vl import QwenVlRenderer
from turnwise.agents.tokens.token_texts import TokenTexts, system_text
from turnwise.records import Horizon, Source, Step, Trajectory
from turnwise.tests.agents.pictures import READABLE, claimed, png

WORDS = ["page", "find", "lamp", "click"]
WIDE, SMALL = Image.of(png(140, 84)), Image.of(png(56, 56))
WIDE_TOKENS, SMALL_TOKENS = 15, 4
"""One token per 28 x 28 pixels."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_vision_model(tmp_path_factory.mktemp("vision") / "model", WORDS, hidden=32, layers=1)


@pytest.fixture(scope="module")
def renderer(folder: Path) -> Renderer:
    return load_renderer(folder)


def sampled(conversation: Conversation, tokens: list[int]) -> None:
    conversation.act(tokens, [-0.5] * len(tokens), [0] * len(tokens))


def test_an_image_has_its_tokens_before_the_text(renderer: Renderer) -> None:
    conversation = Conversation(renderer, "find")
    message = conversation.observe("lamp", [WIDE, SMALL])
    prompt, (wide, small) = conversation.prompt(), conversation.images()
    pad = renderer.encoder.control_token(IMAGE)
    assert message.images == (WIDE.blob, SMALL.blob)
    assert (wide.blob, wide.length, small.blob, small.length) == (WIDE.blob, WIDE_TOKENS, SMALL.blob, SMALL_TOKENS)
    for span in (wide, small):
        assert prompt[span.offset : span.offset + span.length] == [pad] * span.length
        assert pad not in (prompt[span.offset - 1], prompt[span.offset + span.length])
    assert renderer.encoder.decode(prompt) == "find lamp"


def test_larger_patches_make_fewer_tokens(tmp_path: Path) -> None:
    coarse = new_vision_model(tmp_path / "model", WORDS, hidden=32, layers=1, patch_size=28)
    conversation = Conversation(load_renderer(coarse))
    conversation.observe("lamp", [Image.of(png(112, 56))])
    assert [span.length for span in conversation.images()] == [2]


def test_only_what_an_observation_adds_is_encoded(renderer: Renderer) -> None:
    conversation = Conversation(renderer)
    conversation.observe("page", [SMALL])
    before = conversation.prompt()
    sampled(conversation, renderer.encode_completion("click"))
    second = conversation.observe("lamp", [WIDE])
    assert conversation.prompt()[: len(before)] == before
    assert second.images == (WIDE.blob,)
    assert [span.blob for span in conversation.images()] == [SMALL.blob, WIDE.blob]
    assert conversation.images()[1].offset > len(before)


def test_text_and_turns_are_never_taken_for_an_image(renderer: Renderer) -> None:
    pad = renderer.encoder.control_token(IMAGE)
    assert pad is not None
    conversation = Conversation(renderer)
    conversation.observe(f"page {IMAGE} {IMAGE}", [SMALL])
    assert conversation.prompt().count(pad) == SMALL_TOKENS
    sampled(conversation, [pad, *renderer.encode_completion("click")])
    conversation.observe("lamp", [WIDE])
    assert conversation.prompt().count(pad) == SMALL_TOKENS + 1 + WIDE_TOKENS
    assert [span.length for span in conversation.images()] == [SMALL_TOKENS, WIDE_TOKENS]


def test_dropped_turns_take_their_images_along(renderer: Renderer) -> None:
    pad = renderer.encoder.control_token(IMAGE)
    conversation = Conversation(renderer, "find")
    for image in (SMALL, WIDE):
        conversation.observe("page", [image])
        sampled(conversation, [pad or 0, *renderer.encode_completion("click")])
    conversation.drop_oldest_turns(1)
    root = conversation.observe("lamp", [SMALL])
    (kept, new), prompt = conversation.images(), conversation.prompt()
    assert root.parent is None
    assert root.images == (WIDE.blob, SMALL.blob)
    assert (kept.blob, kept.length, new.blob, new.length) == (WIDE.blob, WIDE_TOKENS, SMALL.blob, SMALL_TOKENS)
    assert all(prompt[span.offset : span.offset + span.length] == [pad] * span.length for span in (kept, new))


@pytest.mark.parametrize("length", [1, SMALL_TOKENS, WIDE_TOKENS])
def test_a_context_that_begins_again_leaves_out_the_images_that_a_turn_sampled(renderer: Renderer, length: int) -> None:
    """The learner finds the images of a stored context by its tokens: such a turn made the whole group expire."""
    start, pad, end = (renderer.encoder.control_token(one) or 0 for one in (START, IMAGE, END))
    conversation = Conversation(renderer, "find")
    for image in (SMALL, WIDE):
        conversation.observe("page", [image])
        sampled(conversation, [start, *[pad] * length, end, *renderer.encode_completion("click")])
    conversation.drop_oldest_turns(1)
    root = conversation.observe("lamp", [SMALL])
    spans = conversation.images()
    assert [span.length for span in spans] == [WIDE_TOKENS, SMALL_TOKENS]
    assert renderer.image_spans(list(root.tokens), [WIDE, SMALL]) == spans
    assert list(root.tokens).count(pad) == WIDE_TOKENS + SMALL_TOKENS


def test_instructions_that_spell_the_control_token_get_no_image(renderer: Renderer) -> None:
    pad = renderer.encoder.control_token(IMAGE) or 0
    conversation = Conversation(renderer, f"find {IMAGE} lamp")
    conversation.observe("page")
    assert pad not in conversation.prompt()
    sampled(conversation, renderer.encode_completion("click"))
    conversation.observe("page", [WIDE])
    sampled(conversation, renderer.encode_completion("click"))
    conversation.drop_oldest_turns(1)
    conversation.observe("lamp", [SMALL])
    assert conversation.prompt().count(pad) == sum(span.length for span in conversation.images())


def test_a_replaced_turn_keeps_the_images_before_it(renderer: Renderer) -> None:
    conversation = Conversation(renderer)
    for image in (SMALL, WIDE):
        conversation.observe("page", [image])
        sampled(conversation, renderer.encode_completion("click"))
    conversation.replace_turns(2, "lamp", Source.PATCH)
    assert [span.blob for span in conversation.images()] == [SMALL.blob]


def test_a_model_of_text_refuses_an_image(tmp_path: Path) -> None:
    conversation = Conversation(load_renderer(new_model(tmp_path / "text", WORDS, layers=1)))
    assert not conversation.reads_images
    with pytest.raises(ValueError, match="this policy reads text only, and the observation contains images"):
        conversation.observe("page", [SMALL])


def test_files_of_two_models_are_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"image_token_id": 1}))
    with pytest.raises(UnusableChat, match=r"`image_token_id` in its `config.json` is 1, and `<\|image_pad\|>`"):
        load_renderer(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UnusableChat, match=r"has no image processor \(`preprocessor_config.json`\)"):
        load_renderer(tmp_path)


@pytest.mark.parametrize("size", [(140, 84), (137, 90), (56, 56), (9, 300), (1280, 800), (3840, 2160), (8, 8)])
def test_the_size_of_an_image_is_that_of_what_the_processor_makes_of_it(
    renderer: Renderer, size: tuple[int, int]
) -> None:
    """The patches have 14 pixels, and a token has four of them."""
    pixels = png(*size)
    processor: Any = cast(QwenVlRenderer, renderer)._processor
    made = processor(images=[PIL.Image.open(io.BytesIO(pixels))], return_tensors="np")
    _, rows, columns = made["image_grid_thw"][0]
    assert renderer.image_size(Image.of(pixels)) == (14 * columns, 14 * rows)
    conversation = Conversation(renderer)
    conversation.observe("lamp", [Image.of(pixels)])
    assert conversation.images()[0].length == rows * columns // 4


def test_the_images_of_the_first_observation_are_not_instructions(folder: Path, renderer: Renderer) -> None:
    message = Conversation(renderer, "find find").observe("lamp", [WIDE])
    step = Step(0, "lamp", "", "", 0.0, {}, False, False, True, "", 1, 0.0, 0.0, message.images)
    found = system_text(TokenTexts.load([folder]), Trajectory("a", "r", "g", 0, 0, steps=[step], messages=[message]))
    assert found.strip() == "find find"


class Engine:
    """Answers every request with a token that closes the turn."""

    def __init__(self, stop: int) -> None:
        self._stop = stop

    async def generate(self, *_: Any) -> Completion:
        return Completion(tokens=[self._stop], logprobs=[-1.0], versions=[0], finish_reason="stop")


def test_a_turn_has_the_sizes_of_all_images_of_the_episode(renderer: Renderer) -> None:
    client: Any = Engine(renderer.stop_tokens[0])
    one = PolicyPlayer(PolicyContext(client, Conversation(renderer, "", 8), Horizon(2, 4, 99, 4096), "s", 1.0))
    first = asyncio.run(one.act("lamp", [png(56, 56), png(60, 45)])).image_sizes
    second = asyncio.run(one.act("lamp", [png(140, 84)])).image_sizes
    progress = Progress()
    for sizes in (first, second, {}):
        progress.add_image_sizes(sizes)
    assert first == {"56x56": (56, 56), "60x45": (56, 56)}
    assert progress.extras == {"image_sizes": {"56x56": [56, 56], "60x45": [56, 56], "140x84": [140, 84]}}


def test_a_player_that_is_restored_has_the_sizes_of_the_episode_that_it_continues(renderer: Renderer) -> None:
    begun, other = player(renderer, tokens=9), player(renderer, tokens=9)
    asyncio.run(begun.act("lamp", [png(56, 56)]))
    asyncio.run(other.act("lamp", [png(140, 84)]))
    other.restore(begun.snapshot())
    assert asyncio.run(other.act("lamp", [])).image_sizes == {"56x56": (56, 56)}


def test_an_image_of_a_png_has_its_size_and_hash() -> None:
    assert (WIDE.width, WIDE.height, len(WIDE.blob)) == (140, 84, 64)


def player(renderer: Renderer, tokens: int = 1) -> PolicyPlayer:
    client: Any = Engine(renderer.stop_tokens[0])
    return PolicyPlayer(PolicyContext(client, Conversation(renderer, "", 8), Horizon(1, 1, tokens, 4096), "s", 1.0))


def test_an_observation_with_more_images_than_the_context_holds_is_the_policys_failure(renderer: Renderer) -> None:
    """A failure of the engine would count in no success rate: an agent that opens many pictures would gain by it."""
    with pytest.raises(PolicyFailed, match="it has 33 images, and the context holds 8"):
        asyncio.run(player(renderer).act("lamp", [png(56, 56)] * 33))


def test_a_picture_that_the_processor_refuses_ends_the_episode_by_its_size(renderer: Renderer) -> None:
    for picture, size in ((png(1, 300), "1 x 300"), (claimed(20_000, 60), "20000 x 60")):
        with pytest.raises(PolicyFailed, match=rf"cannot read the observation: .* of {size} pixels is refused: .*200"):
            asyncio.run(player(renderer).act("lamp", [picture]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (f"replace('{IMAGE}{IMAGE}', '{IMAGE}')", "the chat template changed the 4 tokens of an image"),
        (f"replace('{IMAGE}', '{IMAGE}{IMAGE}')", "the context has 8 tokens of images, and its images have 4"),
    ],
    ids=["fewer", "more"],
)
def test_a_template_that_changes_the_number_of_tokens_fails_the_episode(
    folder: Path, tmp_path: Path, change: str, reason: str
) -> None:
    """Nothing is sent to the engine."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    template = tmp_path / "chat_template.jinja"
    changed = template.read_text().replace("m['content']", f"(m['content'] | {change})")
    assert changed != template.read_text()
    template.write_text(changed)
    with pytest.raises(PolicyFailed, match=f"the model cannot read the observation: {reason}"):
        asyncio.run(player(load_renderer(tmp_path)).act("lamp", [png(56, 56)]))


def test_a_huge_picture_has_a_bounded_number_of_tokens(renderer: Renderer) -> None:
    conversation = Conversation(renderer)
    for content in (claimed(20_000, 20_000), READABLE["palette"]):
        conversation.observe("lamp", [Image.of(content)])
        sampled(conversation, renderer.encode_completion("click"))
    huge, small = conversation.images()
    assert small.length == 9
    assert 200 < huge.length <= MAX_PIXELS // 28**2
