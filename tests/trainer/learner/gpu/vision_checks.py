"""Check the learner on a model that reads images, with the shapes of Qwen3-VL-2B and random weights.

Each check scores samples with images of two sizes in bfloat16, packed, and compares them with those of `transformers`,
one sample at a time in the same data type. It then trains on them.
"""

import hashlib
import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

TEXT: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 262_144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
    "tie_word_embeddings": True,
}
TOWER: dict[str, Any] = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "out_hidden_size": 2048,
    "patch_size": 16,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": [5, 11, 17],
}
SMALL_TEXT: dict[str, Any] = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
SMALL_TEXT |= {"num_attention_heads": 2, "num_key_value_heads": 1}
SMALL_TOWER: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "out_hidden_size": 128,
}
SMALL_TOWER |= {"deepstack_visual_indexes": [0]}
"""The part of the model that a CPU checks."""
SPECIAL = 4
"""Control tokens of images and videos: the last rows of the embeddings."""
TOKEN_PIXELS = 32
"""Pixels of an image token along each side."""
UPDATES = 2
MISMATCH = 0.02
"""Mean difference of log-probabilities, packed and by `transformers`, in nats."""


class VisionChecks:
    """The checks of one device; each returns what it measured, and raises ``AssertionError`` where it fails."""

    def __init__(self, device: str, folder: Path) -> None:
        """Check the whole model on a GPU, and a part of it on a CPU. It is written below ``folder``."""
        self.device, self.folder = device, folder / "qwen3_vl"
        on_gpu = device == "cuda"
        self.text = TEXT if on_gpu else TEXT | SMALL_TEXT
        self.tower = TOWER if on_gpu else TOWER | SMALL_TOWER
        self.sizes = ((20, 14), (10, 10)) if on_gpu else ((3, 2), (2, 2))
        """Width and height of the images, in tokens."""
        self.words = 200 if on_gpu else 8
        """Tokens of text after an image."""

    def qwen3_vl(self) -> dict[str, float]:
        """All weights of a model with the shapes of Qwen3-VL-2B train on images, and score as `transformers` does."""
        return self._train(None)

    def qwen3_vl_adapter(self) -> dict[str, float]:
        """A LoRA adapter of a model with the shapes of Qwen3-VL-2B trains on images."""
        return self._train(16)

    def all(self) -> list[Callable[[], dict[str, float]]]:
        """Return every check; none without torchvision, which prepares the images."""
        if find_spec("torchvision") is None:
            print("       images are not checked, because `torchvision` is not installed")
            return []
        return [self.qwen3_vl, self.qwen3_vl_adapter]

    def _train(self, rank: int | None) -> dict[str, float]:
        from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
        from turnwise.trainer.algorithms.proximal.recompute import Recompute
        from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
        from turnwise.trainer.learner.backends.local import Learner
        from turnwise.trainer.learner.model.token_scores import score_with
        from turnwise.trainer.learner.packing import pack

        self._write_model()
        samples = self._samples()
        settings = LearnerConfig(
            device=self.device,
            dtype="bfloat16",
            learning_rate=1e-4,
            lr_warmup_steps=0,
            max_tokens_per_micro_batch=sum(len(one.sample.tokens) for one in samples) // 2,
            lora=None if rank is None else LoraConfig(rank=rank),
        )
        learner = Learner(self.folder, settings, DecoupledPPO(), Recompute(), 1.0)
        found = score_with(learner._scorer, pack(samples, self.device))
        difference = (found - self._expected(samples)).abs()
        result = {"mean_difference": float(difference.mean()), "largest_difference": float(difference.max())}
        for update in range(UPDATES):
            metrics = learner.update(samples, 0.0, update, Random(update))
            assert math.isfinite(metrics["loss"]), metrics
            assert metrics["grad_norm"] > 0, metrics
        assert result["mean_difference"] < MISMATCH, result
        return {**result, "loss": metrics["loss"]}

    def _write_model(self) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForImageTextToText

        if self.folder.exists():
            return
        start, image, video, end = self._special
        config = AutoConfig.for_model(
            "qwen3_vl",
            text_config=self.text,
            vision_config=self.tower,
            image_token_id=image,
            video_token_id=video,
            vision_start_token_id=start,
            vision_end_token_id=end,
            tie_word_embeddings=True,
        )
        torch.manual_seed(0)
        with torch.device(self.device):
            model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        model.save_pretrained(self.folder)
        side = self.tower["patch_size"]
        processor = {
            "image_processor_type": "Qwen2VLImageProcessor",
            "patch_size": side,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "size": {"shortest_edge": TOKEN_PIXELS**2, "longest_edge": 1 << 20},
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
        }
        (self.folder / "preprocessor_config.json").write_text(json.dumps(processor))

    @property
    def _special(self) -> tuple[int, ...]:
        """The token ids of the begin of an image, of its parts, of those of a video, and of its end."""
        rows = self.text["vocab_size"]
        return tuple(range(rows - SPECIAL, rows))

    def _samples(self) -> list[Any]:
        """Return a sample with both images, one with the first, one with the second, and one of text."""
        import numpy as np
        from turnwise.records import Sample, SampleImage
        from turnwise.tests.agents.pictures import png
        from turnwise.trainer.algorithms.groups import TrainSample

        rng = np.random.default_rng(0)
        start, image, _, end = self._special
        contents = [png(TOKEN_PIXELS * width, TOKEN_PIXELS * height, width) for width, height in self.sizes]
        made = []
        for number, shown in enumerate(((0, 1), (0,), (1,), ())):
            tokens, mask, images = [0], [0], []
            for one in shown:
                length, content = math.prod(self.sizes[one]), contents[one]
                images.append(SampleImage(hashlib.sha256(content).hexdigest(), len(tokens) + 1, length, content))
                tokens += [start, *[image] * length, end]
                mask += [0] * (length + 2)
                tokens += rng.integers(start, size=self.words).tolist()
                mask += [1] * self.words
            tokens += rng.integers(start, size=self.words).tolist()
            mask += [1] * self.words
            size, zeros = len(tokens), np.zeros(len(tokens), np.int32)
            columns = np.asarray(mask, np.uint8), np.full(size, -1.0, np.float32), zeros, zeros, zeros
            sample = Sample(f"t{number}", np.asarray(tokens, np.int32), *columns, zeros.astype(np.int8), images)
            advantages, weights = np.full(size, (-1.0) ** number, np.float32), np.asarray(mask, np.float32)
            made.append(TrainSample(sample, f"g{number // 2}", advantages, weights, zeros))
        return made

    def _expected(self, samples: list[Any]) -> Any:
        """Return the log-probabilities of the trained tokens by `transformers`, of one sample at a time."""
        import torch
        from transformers import AutoModelForImageTextToText
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
        from turnwise.agents.engine.images import decoded

        model = AutoModelForImageTextToText.from_pretrained(self.folder, dtype=torch.bfloat16).to(self.device).eval()
        processor: Any = Qwen2VLImageProcessor.from_pretrained(self.folder)
        parts = []
        for one in samples:
            ids = torch.as_tensor(one.sample.tokens, dtype=torch.int64, device=self.device)
            shown: Any = {}
            if one.sample.images:
                shown = processor(images=[decoded(image.content) for image in one.sample.images], return_tensors="pt")
            kinds = (ids == self._special[1]).int()
            with torch.no_grad():
                inputs = {name: value.to(self.device) for name, value in shown.items()}
                logits = model(input_ids=ids[None], mm_token_type_ids=kinds[None], **inputs).logits[0]
            trained = torch.as_tensor(one.weights, device=self.device).nonzero()[:, 0]
            scores = logits[trained - 1].float().log_softmax(-1)
            parts.append(scores[torch.arange(len(trained)), ids[trained]])
        return torch.cat(parts)
