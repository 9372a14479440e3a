"""Packed samples with images: every token as `transformers` computes it unpacked, and the gradient as one by one."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText
from turnwise.agents.engine.images import decoded
from turnwise.agents.tiny_model import new_model
from turnwise.agents.weights.served_adapter import merged_weights
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.engine.vision_models import new_vision_family
from turnwise.tests.trainer.learner.model.image_samples import VOCABULARY, image_samples
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.model.activation_checkpointing import checkpoint_activations
from turnwise.trainer.learner.model.loading import load_model, load_policy
from turnwise.trainer.learner.model.token_scores import TokenScorer, score_with
from turnwise.trainer.learner.model.vision_families import FAMILIES
from turnwise.trainer.learner.packing import pack
from turnwise.trainer.learner.sft import SftExample, sft_loss

TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_vision_family(request.param, tmp_path_factory.mktemp("vision") / "model", VOCABULARY, hidden=64)


@pytest.fixture(scope="module")
def samples(folder: Path) -> list[TrainSample]:
    return image_samples(folder)


@pytest.fixture(scope="module")
def scorer(folder: Path) -> TokenScorer:
    torch.set_num_threads(1)  # as the learner
    return TokenScorer(load_policy(folder, "cpu", None)[0], 1.0)


def reference_logprobs(model: Any, processor: Any, one: TrainSample) -> torch.Tensor:
    """Return the log-probabilities of the trained tokens by `transformers`, of one sample alone."""
    ids = torch.as_tensor(one.sample.tokens, dtype=torch.int64)
    kinds, shown = torch.zeros_like(ids), {}
    for image in one.sample.images:
        kinds[image.offset : image.offset + image.length] = 1
    if one.sample.images:
        made = processor(images=[decoded(image.content) for image in one.sample.images], return_tensors="pt")
        shown = {**made, "mm_token_type_ids": kinds[None]} if "image_grid_thw" in made else {**made}
    # `transformers` takes every such id for a part of an image, a sampled one too: here it has another id, and the same
    # embedding.
    control, spare = model.config.image_token_id, model.config.get_text_config().pad_token_id
    renamed = torch.where((ids == control) & (kinds == 0), spare, ids)[None]
    embeddings = model.get_input_embeddings()

    def restored(module: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs[0][..., None] == spare, embeddings.weight[control], output)

    hook = embeddings.register_forward_hook(restored)
    with torch.no_grad():
        logits = model(input_ids=renamed, **shown).logits
    hook.remove()
    trained = np.flatnonzero(one.weights)
    scores = logits[0, trained - 1].log_softmax(-1)
    return scores[torch.arange(len(trained)), ids[trained]]


def test_packed_samples_have_the_log_probabilities_of_transformers(
    folder: Path, scorer: TokenScorer, samples: list[TrainSample]
) -> None:
    found = score_with(scorer, pack(samples))
    processor = scorer._vision._processor  # type: ignore[union-attr]
    assert processor.backend == "torchvision"  # as the engine's
    model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    expected = torch.cat([reference_logprobs(model, processor, one) for one in samples])
    assert len(expected) == 24
    assert (found - expected).abs().max() <= TOLERANCE


def gradients(scorer: TokenScorer, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    scorer.zero_grad()
    loss.backward()
    found = {name: one.grad.clone() for name, one in scorer.named_parameters() if one.grad is not None}
    scorer.zero_grad()
    return found


def test_the_gradient_of_packed_samples_is_that_of_each_alone(scorer: TokenScorer, samples: list[TrainSample]) -> None:
    found = gradients(scorer, scorer(pack(samples)).logprobs.sum())
    alone = [gradients(scorer, scorer(pack([one])).logprobs.sum()) for one in samples]
    assert len(found) == sum(one.requires_grad for one in scorer.parameters())
    for name, value in found.items():
        total = sum(one[name] for one in alone)
        assert (value - total).abs().max() <= 1e-5 * max(1.0, float(value.abs().max())), name
    without = alone[2]  # its sample has no images: the tower has a gradient of 0, so that all ranks add the same ones
    tower = [value for name, value in without.items() if is_tower(name)]
    assert tower
    assert not any(value.any() for value in tower)
    assert any(found[name].any() for name in found if is_tower(name))


def test_supervised_steps_have_images(scorer: TokenScorer, samples: list[TrainSample]) -> None:
    examples = []
    for one in samples:
        tokens = one.sample.tokens.tolist()
        targets = [{token: 1.0} if weight else None for token, weight in zip(tokens, one.weights, strict=True)]
        examples.append(SftExample(tokens, targets, one.sample.images))
    expected = -score_with(scorer, pack(samples)).mean()
    assert abs(float(sft_loss(scorer, examples, 0.0).detach() - expected)) <= TOLERANCE


def test_an_image_of_another_length_is_not_computed(scorer: TokenScorer, samples: list[TrainSample]) -> None:
    one = samples[0]
    (image,) = one.sample.images
    short = replace(one, sample=replace(one.sample, images=[replace(image, length=8)]))
    with pytest.raises(TurnwiseError, match=r"has 8 tokens in its sample, and the image processor in .* makes 9"):
        scorer(pack([short]))


@pytest.mark.parametrize(("offset", "length"), [(0, 200), (-2, 9)], ids=["beyond the end", "before the begin"])
def test_an_image_outside_of_its_sample_is_not_packed(samples: list[TrainSample], offset: int, length: int) -> None:
    one = samples[0]
    moved = [replace(one.sample.images[0], offset=offset, length=length)]
    twice = [*one.sample.images, *one.sample.images]
    for images in (moved, twice):
        with pytest.raises(TurnwiseError, match="has tokens outside of its place in its sample"):
            pack([samples[1], replace(one, sample=replace(one.sample, images=images)), samples[2]])


def test_a_batch_with_an_image_of_another_length_changes_no_weight(folder: Path, samples: list[TrainSample]) -> None:
    """The last sample is wrong, of two optimizer steps: the first one is not taken either."""
    one, wrong = learner(folder, num_minibatches=2), samples[3]
    shown = [*wrong.sample.images[:-1], replace(wrong.sample.images[-1], length=8)]
    before = one.weights_hash()
    for fail in (
        lambda batch: one.update(batch, 0.0, 0, Random(0)),
        lambda batch: one.fit([SftExample([1] * 60, [None] * 60, batch[-1].sample.images)], 1e-3, 0.1),
    ):
        with pytest.raises(TurnwiseError, match=r"has 8 tokens in its sample, and the image processor in"):
            fail([*samples[:3], replace(wrong, sample=replace(wrong.sample, images=shown))])
        assert one.weights_hash() == before


def learner(folder: Path, **settings: Any) -> Learner:
    config = LearnerConfig(learning_rate=1e-3, lr_warmup_steps=0, max_tokens_per_micro_batch=64, **settings)
    return Learner(folder, config, DecoupledPPO(reference_kl_coef=0.1), Recompute(), 1.0)


def is_tower(name: str) -> bool:
    return any(f".{part}." in name for family in FAMILIES.values() for part in family.parts)


@pytest.mark.parametrize("vision", ["trained", "frozen"])
def test_the_vision_tower_is_trained_or_frozen(
    folder: Path, samples: list[TrainSample], tmp_path: Path, vision: str
) -> None:
    one = learner(folder, vision=vision, activation_checkpointing=True)
    one.load_reference(folder)
    before = {name: value.detach().clone() for name, value in one.model.named_parameters()}
    metrics = one.update(samples, 0.0, 0, Random(0))
    assert metrics["tokens"] == 24
    assert metrics["reference_kl"] == pytest.approx(0, abs=1e-6)
    changed = {name for name, value in one.model.named_parameters() if not value.equal(before[name])}
    published = dict(one.named_parameters())
    assert changed <= published.keys()
    assert any(map(is_tower, changed)) == any(map(is_tower, published)) == (vision == "trained")
    one.save(tmp_path)
    assert {name for name, value in load_model(tmp_path, "cpu").named_parameters() if value.equal(before[name])} == (
        before.keys() - changed
    )


def test_an_adapter_leaves_the_vision_tower_as_it_is(folder: Path, samples: list[TrainSample]) -> None:
    one = learner(folder, lora=LoraConfig(rank=2), dtype="bfloat16")
    names = [name for name, _ in one.named_parameters()]
    assert names
    assert all(".language_model.layers." in name and ".lora_" in name for name in names)
    assert one.update(samples, 0.0, 0, Random(0))["grad_norm"] > 0
    assert one._adapter is not None
    parts = one._adapter.tensors(lambda value: value)
    merged = merged_weights(folder, parts.items(), one._adapter.settings)  # as an engine on a CPU does
    assert sum(1 for _ in merged) == len(names) // 2


def test_a_model_that_reads_text_alone_computes_no_sample_with_images(
    samples: list[TrainSample], tmp_path: Path
) -> None:
    scorer = TokenScorer(load_model(new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2), "cpu"), 1.0)
    with pytest.raises(TurnwiseError, match="reads text alone, and a sample has images"):
        scorer(pack(samples))


def test_activation_checkpointing_changes_no_gradient(
    folder: Path, scorer: TokenScorer, samples: list[TrainSample]
) -> None:
    again = TokenScorer(load_model(folder, "cpu"), 1.0)
    checkpoint_activations(again.model)
    found, expected = (gradients(one, one(pack(samples)).logprobs.sum()) for one in (again, scorer))
    assert all(value.allclose(expected[name], rtol=0, atol=1e-5) for name, value in found.items())
