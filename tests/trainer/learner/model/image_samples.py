"""Training samples with images for a tiny model, without a store and without episodes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image, Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.tokens.renderers.images import ImageRenderer
from turnwise.records import Message, Sample, SampleImage
from turnwise.tests.agents.pictures import png
from turnwise.trainer.algorithms.groups import TrainSample

VOCABULARY = [f"w{i}" for i in range(20)]
"""Words of a model that these samples fit."""
SHOWN = (((84, 84, 1),), ((112, 84, 2), (60, 45, 3)), (), ((150, 90, 4), (84, 84, 1)))
"""Width, height and seed of the images of each sample: several sizes, some resized by the processor, one image shared,
and a sample without images."""


def conversation(renderer: Renderer, number: int, pictures: Sequence[bytes]) -> list[Message]:
    """Return a conversation of two turns, whose first observation shows pictures. In the first turn of every second
    one, the policy sampled the control token of an image."""
    assert isinstance(renderer, ImageRenderer)
    (control,) = renderer.encoder.encode(renderer.placeholder, {}, start=False)
    words = [renderer.encoder.encode(word, {}, start=False)[0] for word in ("w3", "w5", "w7")]
    one = Conversation(renderer, "w1 w2")
    messages = []
    for turn, shown in enumerate((pictures, [])):
        messages.append(one.observe(f"w{number} w{turn}", [Image.of(picture) for picture in shown]))
        tokens = [words[turn], control if number % 2 and not turn else words[2], renderer.stop_tokens[0]]
        messages.append(one.act(tokens, [-3.0 - turn - 0.1 * number] * 3, [7] * 3))
    return messages


def image_samples(folder: Path) -> list[TrainSample]:
    """Return one sample per entry of ``SHOWN``, two per group."""
    renderer = load_renderer(folder)
    made = []
    for number, sizes in enumerate(SHOWN):
        pictures = [png(width, height, seed) for width, height, seed in sizes]
        messages = conversation(renderer, number, pictures)
        spans = renderer.image_spans(list(messages[0].tokens), [Image.of(one) for one in pictures])
        images = [
            SampleImage(one.blob, one.offset, one.length, png_) for one, png_ in zip(spans, pictures, strict=True)
        ]
        mask = np.concatenate([np.asarray(one.mask, np.uint8) for one in messages])
        size, ints = len(mask), mask.astype(np.int32)
        turns = np.repeat([0, 0, 1, 1], [len(one.tokens) for one in messages]).astype(np.int32)
        columns = (
            np.concatenate([np.asarray(one.tokens, np.int32) for one in messages]),
            mask,
            np.concatenate([np.asarray(one.logprobs, np.float32) for one in messages]),
            np.where(mask, 7, -1).astype(np.int32),
            np.where(mask, turns, -1).astype(np.int32),
            ints - 1,
            (ints - 1).astype(np.int8),
        )
        sample = Sample(f"t{number}", *columns, images)
        advantages = np.full(size, 1.0 - 0.7 * number, np.float32)
        weights = mask.astype(np.float32)
        made.append(TrainSample(sample, f"g{number // 2}", advantages, weights, np.zeros(size, np.int32)))
    return made
