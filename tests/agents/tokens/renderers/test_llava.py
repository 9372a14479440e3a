"""Chats with images of LLaVA: every image is cut to a square of the same number of tokens, and no token encloses it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from turnwise.agents.errors import UnusableChat
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image, Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.spaces import Png
from turnwise.tests.agents.engine.vision_models import LLAVA_IMAGE, SIDE, new_vision_family
from turnwise.tests.agents.pictures import png

TOKENS = 9
"""3 x 3 patches."""
WIDE, SMALL = Image.of(png(140, 84)), Image.of(png(56, 56))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_vision_family("llava", tmp_path_factory.mktemp("vision") / "model", ["page", "find", "click"], 32)


@pytest.fixture(scope="module")
def renderer(folder: Path) -> Renderer:
    return load_renderer(folder)


def sampled(conversation: Conversation, tokens: list[int]) -> None:
    conversation.act(tokens, [-0.5] * len(tokens), [0] * len(tokens))


def test_images_have_one_length_and_follow_one_another(renderer: Renderer) -> None:
    conversation = Conversation(renderer, "find")
    conversation.observe("page", [WIDE, SMALL])
    prompt, (wide, small) = conversation.prompt(), conversation.images()
    part = renderer.encoder.control_token(LLAVA_IMAGE)
    assert (wide.blob, wide.length, small.blob, small.length) == (WIDE.blob, TOKENS, SMALL.blob, TOKENS)
    assert small.offset == wide.offset + TOKENS
    assert prompt[wide.offset : small.offset + TOKENS] == [part] * 2 * TOKENS
    assert renderer.encoder.decode(prompt) == "find page"


@pytest.mark.parametrize(("width", "height"), [(140, 84), (61, 200), (56, 56)])
def test_the_part_that_an_image_is_cut_to_is_that_of_the_image_processor(
    renderer: Renderer, folder: Path, width: int, height: int
) -> None:
    """In a picture whose red is its column and whose green is its row."""
    from transformers import AutoImageProcessor

    rows, columns = np.mgrid[0:height, 0:width].astype(np.uint8)
    picture = np.stack([columns, rows, rows * 0], 2)
    found = AutoImageProcessor.from_pretrained(folder)(picture, return_tensors="np")["pixel_values"][0]
    red, green = (found[:2] * 0.5 + 0.5) * 255
    shown_width, shown_height, *part = renderer.image_size(Image.of(Png.encode(picture)))
    assert (shown_height, shown_width) == red.shape == (SIDE, SIDE)
    left, top, across, down = part or (0, 0, width, height)
    assert (len(part), across, down) == (0 if width == height else 4, min(width, height), min(width, height))
    middles = (np.arange(SIDE) + 0.5) / SIDE
    assert np.abs(red.mean(axis=0) + 0.5 - (left + middles * across)).max() < 1.5
    assert np.abs(green.mean(axis=1) + 0.5 - (top + middles * down)).max() < 1.5


def test_a_picture_that_would_be_scaled_to_a_large_one_is_refused(renderer: Renderer) -> None:
    """By 42 pixels on its shorter side, whose longer side may have 9,510 times as many."""
    for width, height in ((1, 9_511), (9_511, 1), (0, 1)):
        shown, reason = Image("ab" * 32, width, height), f"an image of {width} x {height} pixels is refused"
        with pytest.raises(ValueError, match=reason):
            Conversation(renderer).observe("page", [shown])
        with pytest.raises(ValueError, match=reason):
            renderer.image_spans([], [shown])
    Conversation(renderer).observe("page", [Image("ab" * 32, 1, 9_510)])


def test_stored_images_are_found_between_sampled_control_tokens(renderer: Renderer) -> None:
    part = renderer.encoder.control_token(LLAVA_IMAGE) or 0
    conversation = Conversation(renderer, "find")
    for images in ([SMALL], [WIDE, SMALL]):
        conversation.observe(f"page {LLAVA_IMAGE}", images)
        sampled(conversation, [part, part, *renderer.encode_completion("click")])
    conversation.drop_oldest_turns(1)
    root = conversation.observe("page", [SMALL])
    assert root.parent is None
    spans = conversation.images()
    assert [span.blob for span in spans] == [WIDE.blob, SMALL.blob, SMALL.blob]
    assert renderer.image_spans(list(root.tokens), [WIDE, SMALL, SMALL]) == spans
    with pytest.raises(ValueError, match=r"images of \[9, 9, 9\] tokens, and its images have \[9, 9\]"):
        renderer.image_spans(list(root.tokens), [WIDE, SMALL])


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("config.json", {"image_token_index": 1}, "`image_token_index` in its `config.json` is 1, and `<image>`"),
        (
            "config.json",
            {"vision_feature_layer": [-2, -5]},
            r"`vision_feature_layer` .* is \[-2, -5\], and vLLM serves",
        ),
        ("preprocessor_config.json", {"size": 99}, r"`size` .* is 99, and its tower needs \{'shortest_edge': 42\}"),
        ("preprocessor_config.json", {"do_resize": False}, "`do_resize` .* is False, and its tower needs True"),
        ("preprocessor_config.json", {"do_center_crop": False}, "`do_center_crop` .* is False, and its tower needs"),
        ("preprocessor_config.json", {"crop_size": 99}, "`crop_size` .* is 99, and the vision tower .* of 42 pixels"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, file: str, change: dict[str, object], reason: str
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    content = json.loads((tmp_path / file).read_text())
    (tmp_path / file).write_text(json.dumps(content | change))
    with pytest.raises(UnusableChat, match=reason):
        load_renderer(tmp_path)
