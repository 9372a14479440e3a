"""Check the learner on a GPU, with torch, transformers, peft and pydantic alone: no vLLM, Ray nor pytest is imported.

``make test-gpu`` runs this file. ``make test-gpu ARGS="--device cpu"`` runs the checks that need no GPU on the CPU.
Prints one line per check and one JSON line last. Exit status: 0 if every check holds, 1 if one fails or a package is
missing, 2 without a GPU.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
BLOCKED = ("alembic", "gymnasium", "ray", "sqlalchemy", "vllm")
NO_GPU = 2
"""Exit status without a GPU."""


class _Blocked:
    """An import hook that refuses what the learner must not need."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"the learner imports `{name}`, which a machine for learners may lack")


def this_checkout(folder: Path) -> None:
    """Make ``turnwise`` the checkout of this file, which need not be installed nor have that name."""
    (folder / "turnwise").symlink_to(ROOT)
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, _Blocked())


def receive(folder: str, offer: dict[str, Any], device: str, expected: str, answers: Any) -> None:
    """Receive weights in another process, and answer whether they equal those of the file ``expected``."""
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, _Blocked())
    import torch
    from safetensors.torch import load_file
    from turnwise.agents.weights.base import transport

    if device != "cpu":
        torch.cuda.set_device(device)
    answers.send("ready")
    received = dict(transport(offer["transport"]).receiver(0, torch.device(device)).receive(offer))
    sent = load_file(expected)
    equal = received.keys() == sent.keys() and all(torch.equal(received[name].cpu(), sent[name]) for name in sent)
    answers.send("equal" if equal else "different")


class Checks:
    """The checks, on one device; each returns what it measured, and raises ``AssertionError`` where it fails."""

    def __init__(self, device: str, folder: Path) -> None:
        import torch
        from turnwise.agents.tiny_model import new_model
        from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
        from turnwise.trainer.algorithms.losses.base import PolicyLoss
        from turnwise.trainer.algorithms.proximal.base import ProximalPolicy
        from turnwise.trainer.config.sections import LearnerConfig

        self.torch = torch
        self.device = device
        self.folder = folder
        self.model = new_model(folder / "model", VOCABULARY, hidden=64, heads=2, layers=4, seed=3)
        self.samples = train_samples
        self.loss: dict[str, Any] = {"name": "decoupled_ppo", "entropy_coef": 0.1}
        self.policy_loss, self.proximal_policy = PolicyLoss, ProximalPolicy
        self.config = LearnerConfig(
            learning_rate=1e-2, lr_warmup_steps=0, max_tokens_per_micro_batch=24, max_kl=1e-3, device=device
        )

    def learner(self, folder: Path | None = None, ranks: Any = None, **changes: Any) -> Any:
        from turnwise.trainer.learner.backends.local import Learner
        from turnwise.trainer.learner.backends.ranks import ALONE

        loss, proximal = self.policy_loss.build(self.loss), self.proximal_policy.build_default()
        config = self.config.model_copy(update=changes)
        return Learner(folder or self.model, config, loss, proximal, 0.7, ALONE if ranks is None else ranks)

    def train(self, *learners: Any, updates: int = 3) -> list[dict[str, float]]:
        """Train each learner on the same batches, and return its metrics of the last update."""
        for update in range(updates):
            last = [one.update(self.samples(update), 0.0, update, Random(update)) for one in learners]
        return last

    def difference(self, first: Any, second: Any) -> float:
        """Return the largest difference of two learners' weights."""
        pairs = zip(first.named_parameters(), second.named_parameters(), strict=True)
        return max(
            float((first._ranks.whole(a) - second._ranks.whole(b)).detach().abs().max()) for (_, a), (_, b) in pairs
        )

    def same_as_on_the_cpu(self) -> dict[str, float]:
        """An update has the weights of the same update on a CPU."""
        learners = self.learner(), self.learner(device="cpu")
        self.train(*learners, updates=1)
        moved = learners[0].model.cpu(), learners[1].model
        pairs = zip(*(one.parameters() for one in moved), strict=True)
        found = max(float((a - b).detach().abs().max()) for a, b in pairs)
        assert found < 1e-4, found
        return {"difference": found}

    def chunks(self) -> dict[str, float]:
        """Scores in chunks equal those of whole logits, in value and gradient."""
        from turnwise.trainer.algorithms.losses.base import Need
        from turnwise.trainer.learner.model import token_scores as module
        from turnwise.trainer.learner.packing import pack

        token_scores: Any = module
        tokens = pack(self.samples(1), self.device)
        whole = token_scores.LOGITS_PER_CHUNK
        results = []
        for size in (whole, 3 * self.learner().model.config.vocab_size):
            token_scores.LOGITS_PER_CHUNK = size
            one = self.learner()
            scores = one._scorer(tokens, Need.ENTROPY_GRADIENT)
            (scores.logprobs * tokens.advantages + 0.1 * scores.entropies).mean().backward()
            results.append([scores.logprobs, scores.entropies, *(value.grad for value in one.model.parameters())])
        token_scores.LOGITS_PER_CHUNK = whole
        found = max(float((a - b).detach().abs().max()) for a, b in zip(*results, strict=True))
        assert found < 1e-5, found
        return {"difference": found}

    def memory_of_logits(self) -> dict[str, float]:
        """8,192 tokens of a vocabulary of 150,000 need a fraction of the memory of their logits."""
        from transformers import AutoConfig, AutoModelForCausalLM
        from turnwise.trainer.algorithms.losses.base import Need
        from turnwise.trainer.learner.model import packed_attention, token_scores
        from turnwise.trainer.learner.packing import MicroBatch

        torch, count, vocabulary = self.torch, 8192, 150_000
        sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "head_dim": 32}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
        config = AutoConfig.for_model("qwen3", vocab_size=vocabulary, **sizes, **heads)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=packed_attention.NAME)
        scorer = token_scores.TokenScorer(model.to(self.device).eval(), 1.0)
        positions = torch.arange(count, device=self.device)
        zeros = torch.zeros(count - 1, dtype=torch.int64, device=self.device)
        batch = MicroBatch(0 * positions[None], positions[None], [count], positions[:-1], *[zeros] * 11)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        scores = scorer(batch, Need.ENTROPY_GRADIENT)
        (scores.logprobs + scores.entropies).sum().backward()
        peak, logits = torch.cuda.max_memory_allocated() - before, 4 * count * vocabulary
        assert peak < logits / 3, (peak, logits)
        return {"peak_bytes": peak, "logits_bytes": logits}

    def fused_attention(self) -> dict[str, float]:
        """The attention of a GPU equals the attention by sequence: windows, soft caps and sinks, gradients included."""
        from turnwise.trainer.learner.model.attention_by_sequence import AttentionScheme, attend_by_sequence
        from turnwise.trainer.learner.model.fused_attention import attend_fused

        torch, heads = self.torch, 4
        on_gpu = self.device == "cuda"
        lengths = [300, 1, 700, 47] if on_gpu else [200, 1, 47]  # a CPU holds all pairs of positions
        dtype, bound = (torch.bfloat16, 0.05) if on_gpu else (torch.float32, 1e-4)
        shapes = [(1, heads, sum(lengths), 64), *[(1, 2, sum(lengths), 64)] * 2]
        whole = [torch.randn(shape, device=self.device).to(dtype) for shape in shapes]
        whole_sinks = torch.randn(heads, device=self.device)
        worst = 0.0
        for window, softcap, with_sinks in (
            *((None, None, False), (128, None, False), (None, 4.0, False)),
            *((128, 4.0, False), (None, None, True), (128, None, True)),
        ):
            results = []
            for attend, precision in ((attend_fused, dtype), (attend_by_sequence, torch.float32)):
                query, key, value = inputs = [one.to(precision, copy=True).requires_grad_(on_gpu) for one in whole]
                sinks = whole_sinks.clone().requires_grad_() if with_sinks else None
                scheme = AttentionScheme(None, window, softcap, sinks)
                output = attend(query, key, value, lengths, scheme)
                if output.requires_grad:  # on a CPU for sinks alone: flex-attention has no backward pass there
                    output.float().square().sum().backward()
                trained = inputs if sinks is None else [*inputs, sinks]
                results.append([output.detach(), *(one.grad for one in trained if one.grad is not None)])
            for one, other in zip(*results, strict=True):
                scale = float(other.abs().max())
                worst = max(worst, float((one.float() - other).abs().max()) / scale)
        assert worst < bound, worst
        return {"relative_difference": worst}

    def families(self) -> dict[str, float]:
        """A model with soft caps and windows, and one with experts and sinks, train on this device as on the CPU."""
        from transformers import AutoConfig, AutoModelForCausalLM
        from turnwise.trainer.learner.model.token_scores import score_with
        from turnwise.trainer.learner.packing import pack

        torch = self.torch
        sizes = {"vocab_size": 32, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 32}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 0, "eos_token_id": 1}
        mixed = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
        worst = 0.0
        for family, options in (
            ("gemma2", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
            ("gpt_oss", {"num_local_experts": 4, "num_experts_per_tok": 2}),
        ):
            torch.manual_seed(0)
            config = AutoConfig.for_model(family, **sizes, **heads, **mixed, **options)
            folder = self.folder / family
            AutoModelForCausalLM.from_config(config).save_pretrained(folder)
            learners = self.learner(folder), self.learner(folder, device="cpu")
            self.train(*learners, updates=1)
            scores = [score_with(one._scorer, pack(self.samples(3), one.config.device)).cpu() for one in learners]
            worst = max(worst, float((scores[0] - scores[1]).abs().max()))
        assert worst < 1e-3, worst
        return {"difference": worst}

    def activation_checkpointing(self) -> dict[str, float]:
        """Activation checkpointing trains the same weights."""
        learners = self.learner(), self.learner(activation_checkpointing=True)
        self.train(*learners)
        found = self.difference(*learners)
        assert found < 1e-5, found
        return {"difference": found}

    def optimizer_offload(self) -> dict[str, float]:
        """With its moments in the host's memory, the optimizer trains the same weights and keeps none on the GPU."""
        from turnwise.trainer.learner.optimizer import optimizer_tensors

        learners = self.learner(), self.learner(optimizer_offload=True)
        self.train(*learners)
        found = self.difference(*learners)
        assert found < 1e-5, found
        moments = {
            one: value
            for one, value in optimizer_tensors(learners[1].model, learners[1].optimizer).items()
            if not one.endswith("/step")
        }
        assert moments
        assert {value.device.type for value in moments.values()} == {"cpu"}
        return {"difference": found, "bytes_on_host": sum(value.nbytes for value in moments.values())}

    def bfloat16(self) -> dict[str, float]:
        """An update in bfloat16 keeps weights and gradients in float32."""
        learners = self.learner(), self.learner(dtype="bfloat16")
        exact, rounded = self.train(*learners, updates=1)
        assert {one.dtype for _, one in learners[1].named_parameters()} == {self.torch.float32}
        found = abs(exact["loss"] - rounded["loss"])
        assert found < 0.05, (exact, rounded)
        return {"loss_difference": found}

    def one_sharded_rank(self) -> dict[str, float]:
        """One rank of FSDP2 trains the same weights, and its checkpoint resumes in one process."""
        from turnwise.trainer.learner.backends.rank import LearnerRank, RankSpec

        changes = {"backend": "fsdp", "optimizer_offload": self.device == "cuda"}
        settings = self.config.model_copy(update=changes).model_dump(mode="json")
        rank = LearnerRank(0, 1)
        rank.connect(rank.listen(), RankSpec(str(self.model), settings, self.loss, {"name": "recompute"}, 0.7))
        one = self.learner()
        for update in range(3):
            samples, states = self.samples(update), (one.loss.state_dict(), one.proximal.state_dict())
            found = rank.update(samples, 0.0, update, Random(update), states).metrics
            expected = one.update(samples, 0.0, update, Random(update))
            assert abs(found["loss"] - expected["loss"]) < 1e-4, (found, expected)
        saved = self.folder / "saved"
        saved.mkdir()
        rank.save(str(saved))
        again = self.learner(saved)
        again.load_optimizer(saved)
        difference = self.difference(one, again)
        assert difference < 1e-4, difference
        rank.open_weights("shm", self.link())
        rank.write_weights()
        location = rank.offer_weights(0, "")
        assert Path(location["path"]).stat().st_size > sum(value.nbytes for _, value in one.named_parameters())
        rank.close()
        return {"difference": difference}

    def collective(self) -> dict[str, float]:
        """Another process receives the weights: by NCCL on a second GPU, or by gloo if there is none."""
        from safetensors.torch import save_file
        from turnwise.agents.weights.collective.sender import CollectiveSender
        from turnwise.agents.weights.source import ParameterSource

        nccl = self.device == "cuda" and self.torch.cuda.device_count() > 1
        if not nccl:
            print("       NCCL is not checked, because it needs two GPUs; gloo takes its place")
        named = self.learner().named_parameters()
        expected = self.folder / "sent.safetensors"
        save_file({name: value.detach().cpu() for name, value in named}, expected)
        sender = CollectiveSender(ParameterSource(named), self.link(engines_on_gpu=nccl), bucket_bytes=1 << 16)
        context = multiprocessing.get_context("spawn")
        near, far = context.Pipe()
        offer = sender.offer(0, "first")
        arguments = (str(self.folder), offer, "cuda:1" if nccl else "cpu", str(expected), far)
        process = context.Process(target=receive, args=arguments)
        process.start()
        far.close()
        assert near.recv() == "ready"
        start = perf_counter()
        sender.send(0)
        seconds = perf_counter() - start
        assert near.recv() == "equal"
        process.join(30)
        sender.close()
        return {"seconds": seconds, "by_nccl": float(nccl)}

    def ipc(self) -> dict[str, float]:
        """Another process on this GPU reads the weights of two versions where they are."""
        from safetensors.torch import save_file
        from turnwise.agents.weights.ipc import IpcSender
        from turnwise.agents.weights.source import ParameterSource

        one = self.learner()
        sender = IpcSender(ParameterSource(one.named_parameters()), self.link(engines_on_gpu=True))
        context = multiprocessing.get_context("spawn")
        for update in range(2):
            one.update(self.samples(update), 0.0, update, Random(update))
            expected = self.folder / f"ipc{update}.safetensors"
            save_file({name: value.detach().cpu() for name, value in one.named_parameters()}, expected)
            sender.write()
            start = perf_counter()
            offer = sender.offer(0, "first")
            seconds = perf_counter() - start
            near, far = context.Pipe()
            process = context.Process(target=receive, args=(str(self.folder), offer, "cuda:0", str(expected), far))
            process.start()
            far.close()
            assert [near.recv(), near.recv()] == ["ready", "equal"]
            process.join(30)
        sender.close()
        return {"seconds": seconds}

    def link(self, **changes: Any) -> Any:
        from turnwise.agents.weights.base import Link

        return Link(**changes)

    def all(self) -> list[Callable[[], dict[str, float]]]:
        """Return every check."""
        anywhere = [self.fused_attention, self.families, self.chunks, self.activation_checkpointing]
        anywhere += [self.optimizer_offload, self.bfloat16, self.one_sharded_rank, self.collective]
        return (
            [self.same_as_on_the_cpu, self.memory_of_logits, *anywhere, self.ipc] if self.device == "cuda" else anywhere
        )


def name_of(device: str) -> str:
    """Return the name of the device; an empty string, after an error message, if there is no GPU."""
    import torch

    if device == "cpu":
        return "the CPU"
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    print('no GPU was found: `make test-gpu ARGS="--device cpu"` runs the same checks on the CPU', file=sys.stderr)
    return ""


def run_checks(part: str, device_name: str, checks: list[Callable[[], dict[str, Any]]]) -> int:
    """Run the checks, print one line for each and one JSON line last, and return the exit status."""
    import torch

    print(f"checking {part} on {device_name}, torch {torch.__version__}", flush=True)
    results: dict[str, Any] = {}
    failed = []
    for check in checks:
        start = perf_counter()
        try:
            results[check.__name__] = check()
        except Exception:
            failed.append(check.__name__)
            traceback.print_exc()
        state = "FAILED" if check.__name__ in failed else "ok"
        print(f"{state:6} {check.__name__} ({perf_counter() - start:.1f} s): {check.__doc__}", flush=True)
    print(json.dumps({"device": device_name, "failed": failed, **results}))
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device: str = parser.parse_args().device
    with tempfile.TemporaryDirectory() as temporary:
        this_checkout(Path(temporary))
        from turnwise.tests.trainer.learner.gpu.packages import missing_packages, report_missing

        if missing := missing_packages():
            return report_missing(missing)
        if not (name := name_of(device)):
            return NO_GPU
        from turnwise.tests.trainer.learner.gpu.model_checks import ModelChecks
        from turnwise.tests.trainer.learner.gpu.vision_checks import VisionChecks

        parts = [kind(device, Path(temporary)) for kind in (Checks, ModelChecks, VisionChecks)]
        return run_checks("the learner", name, [check for part in parts for check in part.all()])


if __name__ == "__main__":
    sys.exit(main())
