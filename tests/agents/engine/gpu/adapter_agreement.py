"""Sample with an engine that serves the learner's LoRA adapter, and score the same tokens with the merged model."""

from pathlib import Path

import torch
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.weights.base import WeightSender
from turnwise.tests.trainer.learner.model.parity.agreement import SETTINGS, TEMPERATURE, Agreeing
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.model.loading import load_model, merge_adapter

LORA = LoraConfig(rank=5, alpha=20)


class AgreeingAdapter(Agreeing):
    """One family: its engine, a learner of an adapter, and the merged weights of every version."""

    def __init__(self, family: str, folder: Path, settings: EngineConfig = SETTINGS, device: str = "cpu") -> None:
        super().__init__(family, folder / "base", settings, device, LORA.rank)
        config = LearnerConfig(lora=LORA, device=device)
        self.learner = Learner(self.folder, config, DecoupledPPO(), Recompute(), TEMPERATURE)
        self._checkpoints = folder

    def sender(self, transport_name: str) -> WeightSender:
        """Return the learner's side of a transport, for the adapter."""
        return self.learner.weights(transport_name, self.link)

    def change(self) -> None:
        """Change the adapter."""
        with torch.no_grad():
            for _, parameter in self.learner.named_parameters():
                noise = torch.randn(parameter.shape, generator=self._generator)
                parameter.add_(noise.to(self.device) * 0.05)

    def scored_weights(self) -> dict[str, torch.Tensor]:
        """Return the weights of the model with the present adapter, saved by the learner and merged by PEFT."""
        checkpoint = self._checkpoints / str(len(self.weights))
        checkpoint.mkdir()
        self.learner.save(checkpoint)
        merge_adapter(checkpoint, checkpoint / "merged")
        return dict(load_model(checkpoint / "merged", self.device).named_parameters())
