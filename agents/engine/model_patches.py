"""Patches of the classes of models in vLLM 0.32, applied in the processes that load a model, on any device.

* Names in LLaVA's tower. `transformers` 5 names a CLIP in it ``vision_tower``, and vLLM ``vision_tower.vision_model``,
  as published files do.
"""

import re
from typing import Any

LLAVA = "LlavaForConditionalGeneration"


def apply() -> None:
    """Patch vLLM; idempotent."""
    from vllm.model_executor.models import utils

    loader: Any = utils.AutoWeightsLoader
    plain = loader.load_weights
    if hasattr(plain, "names_towers"):
        return
    towers = utils.WeightsMapper(
        orig_to_new_regex={re.compile(r"^(model\.)?vision_tower\.(?!vision_model\.)"): "vision_tower.vision_model."}
    )

    def load_weights(self: Any, weights: Any, *, mapper: Any = None) -> Any:
        if type(self.module).__name__ == LLAVA:
            mapper = mapper | towers
        return plain(self, weights, mapper=mapper)

    load_weights.names_towers = True  # type: ignore[attr-defined]
    loader.load_weights = load_weights
