"""Check the learner on models with the shapes of published ones, made from their configuration with random weights.

Each check trains one model for a few updates in bfloat16, with all weights or with a LoRA adapter. It compares the peak
memory with ``turnwise plan``'s, the time of an update with that of its bare matrix products, and the log-probabilities
in bfloat16 with those in float32.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter
from types import SimpleNamespace
from typing import Any

LLAMA = {"model_type": "llama", "tie_word_embeddings": True, "max_position_embeddings": 8192}
SMOLLM2_135M = LLAMA | {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}
"""The shapes of SmolLM2-135M."""
QWEN3_600M = {
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40_960,
}
"""The shapes of Qwen3-0.6B."""
SMALL = {"num_hidden_layers": 1, "vocab_size": 1000, "hidden_size": 288, "intermediate_size": 576}
"""The part of a model that a CPU checks."""
PLAN_BOUNDS = 0.9, 1.6
"""The plan over the measured peak. The plan of a GPU leaves a tenth free, and must not be below the peak by more."""
MISMATCH = 0.02
"""Mean difference of log-probabilities in bfloat16 and in float32, in nats."""


class ModelChecks:
    """The checks of one device; each returns what it measured, and raises ``AssertionError`` where it fails."""

    def __init__(self, device: str, folder: Path) -> None:
        """Check whole models on a GPU, and parts of them on a CPU. Models are written below ``folder``."""
        self.device, self.folder = device, folder
        self.tokens = 8192 if device == "cuda" else 64
        """Tokens per micro-batch."""
        self.updates = 5 if device == "cuda" else 3
        """The first two compile kernels and fill the allocator; the others are timed."""
        self.changes: dict[str, Any] = {} if device == "cuda" else {**SMALL}

    def smollm2(self) -> dict[str, float]:
        """All weights of a model with the shapes of SmolLM2-135M train in the planned memory."""
        return self._measure("smollm2", SMOLLM2_135M, None)

    def qwen3(self) -> dict[str, float]:
        """All weights of a model with the shapes of Qwen3-0.6B train in the planned memory."""
        return self._measure("qwen3", QWEN3_600M, None)

    def qwen3_adapter(self) -> dict[str, float]:
        """A LoRA adapter of a model with the shapes of Qwen3-0.6B trains in the planned memory."""
        return self._measure("qwen3", QWEN3_600M, 16)

    def all(self) -> list[Callable[[], dict[str, float]]]:
        """Return every check; on a CPU, one with all weights and one with an adapter."""
        whole = [self.smollm2, self.qwen3] if self.device == "cuda" else [self.smollm2]
        return [*whole, self.qwen3_adapter]

    def _measure(self, name: str, shapes: dict[str, Any], rank: int | None) -> dict[str, float]:
        import torch
        from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
        from turnwise.trainer.algorithms.proximal.recompute import Recompute
        from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
        from turnwise.trainer.learner.backends.local import Learner
        from turnwise.trainer.learner.model.token_scores import TokenScorer, score_with
        from turnwise.trainer.learner.packing import pack
        from turnwise.trainer.planning.learner_memory import LearnerMemory, Workload
        from turnwise.trainer.planning.model_shape import ModelShape

        config, folder = self._model(name, shapes)
        settings = LearnerConfig(
            device=self.device,
            dtype="bfloat16",
            max_tokens_per_micro_batch=self.tokens,
            lora=None if rank is None else LoraConfig(rank=rank),
        )
        loss, proximal = DecoupledPPO(), Recompute()
        on_gpu = self.device == "cuda"
        if on_gpu:
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        learner = Learner(folder, settings, loss, proximal, 1.0)
        batches = [self._samples(config.vocab_size, update) for update in range(self.updates)]
        seconds, bare = [], []
        for update, samples in enumerate(batches):
            start = self._now()
            learner.update(samples, 0.0, update, Random(0))
            seconds.append(self._now() - start)
        result: dict[str, float] = {}
        if on_gpu:
            peak = torch.cuda.max_memory_allocated() - before
            run = SimpleNamespace(
                learner=settings,
                loss=loss,
                proximal=proximal,
                needs_reference=False,
                advantage=SimpleNamespace(needs_token_model=False),
                sft_warmup=SimpleNamespace(steps=0),
            )
            work: Any = Workload(self.tokens, self.tokens, is_split=True)
            planned = LearnerMemory(ModelShape.of(config), run, work).total  # type: ignore[arg-type]
            result = {"peak_bytes": peak, "plan_over_measured": planned / peak}
        packed = pack(batches[0][:4], self.device)
        low = score_with(learner._scorer, packed)
        high = score_with(TokenScorer(learner.model.float(), 1.0), packed)
        mismatch = float((low - high).abs().mean())
        learner.optimizer.state.clear()
        for _ in range(self.updates):
            start = self._now()
            self._bare_products(learner.model, adapted=rank is not None)
            bare.append(self._now() - start)
        trained = 2 * self.tokens
        result |= {
            "tokens_per_s": trained / min(seconds[2:]),
            "bare_tokens_per_s": trained / min(bare),
            "learner_over_matmul": min(bare) / min(seconds[2:]),
            "bfloat16_mismatch": mismatch,
        }
        del learner
        assert mismatch < MISMATCH, result
        assert not on_gpu or PLAN_BOUNDS[0] < result["plan_over_measured"] < PLAN_BOUNDS[1], result
        return result

    def _model(self, name: str, shapes: dict[str, Any]) -> tuple[Any, Path]:
        """Return the configuration and the folder of a model with random weights."""
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(**(shapes | self.changes))
        folder = self.folder / name
        if not folder.exists():
            torch.manual_seed(0)
            with torch.device(self.device):
                model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            model.save_pretrained(folder)
        return config, folder

    def _samples(self, vocabulary: int, seed: int) -> list[Any]:
        """Return samples of random tokens that fill two micro-batches; every token but the first is trained."""
        import numpy as np
        from turnwise.records import Sample
        from turnwise.trainer.algorithms.groups import TrainSample

        rng, length = np.random.default_rng(seed), self.tokens // 8
        mask, zeros = np.ones(length, np.uint8), np.zeros(length, np.int32)
        made = []
        for number in range(16):
            tokens = rng.integers(vocabulary, size=length, dtype=np.int32)
            columns = mask, np.full(length, -1.0, np.float32), zeros, zeros, zeros, zeros.astype(np.int8)
            advantages = np.full(length, (-1.0) ** number, np.float32)
            sample = Sample(f"t{number}", tokens, *columns)
            made.append(TrainSample(sample, f"g{number // 8}", advantages, mask.astype(np.float32), zeros))
        return made

    def _bare_products(self, model: Any, *, adapted: bool) -> None:
        """Compute the products of every linear layer for two micro-batches, forward and backward, in bfloat16.

        The weights of a layer that an adapter leaves as it is need no gradient: two products instead of three.
        """
        import torch

        options: dict[str, Any] = {"dtype": torch.bfloat16, "device": self.device}
        for layer in model.modules():
            if not isinstance(layer, torch.nn.Linear) or min(layer.weight.shape) <= 16:
                continue
            weight = layer.weight.detach().to(torch.bfloat16)
            inputs = torch.ones(self.tokens, layer.in_features, **options)
            outputs = torch.ones(self.tokens, layer.out_features, **options)
            for _ in range(2):
                torch.mm(inputs, weight.T)
                torch.mm(outputs, weight)
                if not adapted:
                    torch.mm(outputs.T, inputs)

    def _now(self) -> float:
        """Return the time when the device has done all that it was given, in seconds."""
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()
        return perf_counter()
