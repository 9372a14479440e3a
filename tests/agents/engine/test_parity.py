"""Engine and learner agree on the log-probability of every sampled token, through updates in flight.

Each of four models (Qwen3 and Llama, tied and untied) serves requests at T = 1 and T = 0.7 while its weights change six
times, by each of two weight transports. The Hugging Face model then scores each token under the version that the engine
reported for it. `make soak` runs all this. CI checks untied Llama on the engine of ``test_actor.py``, tied Qwen3 and an
adapter in ``gpu/test_check_engine.py``, and experts in ``tests/trainer/learner/model/parity``.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.tiny_model import new_model
from turnwise.tests.agents.engine.parity import WORDS, check, play

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
@pytest.mark.parametrize("tie", [False, True])
def test_engine_and_learner_agree_on_every_token(ray: Any, run: Any, tmp_path: Path, arch: Any, tie: bool) -> None:
    path = new_model(tmp_path / "model", WORDS, seed=5, arch=arch, tie=tie)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    engine = start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), path)
    try:
        played = [run(play(model, engine, way)) for way in ("shm", "collective")]
    finally:
        ray.kill(engine)
    for snapshots, sampled in played:
        check(model, snapshots, sampled)
