"""Arguments of vLLM under their own names: passed through, refused with a reason, or unknown."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import ValidationError
from turnwise.agents.engine.actor import environment_of
from turnwise.agents.engine.config import FREE_SHARE_AT_START, PASSED_THROUGH, REFUSED, EngineConfig, engine_arguments


def arguments_of_vllm() -> set[str]:
    """Return the fields of ``EngineArgs`` from the source of vLLM, whose import would take seconds."""
    spec = find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse((Path(spec.origin).parent / "engine/arg_utils.py").read_text())
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "EngineArgs"]
    fields = [one.target for one in classes[0].body if isinstance(one, ast.AnnAssign)]
    return {one.id for one in fields if isinstance(one, ast.Name)}


def test_vllm_has_every_argument_of_the_lists() -> None:
    known = arguments_of_vllm()
    assert not PASSED_THROUGH - known
    assert not REFUSED.keys() - known
    assert not PASSED_THROUGH & (REFUSED.keys() | EngineConfig.model_fields.keys())


def test_arguments_are_passed_through_and_take_precedence() -> None:
    config = EngineConfig.model_validate(
        {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.5, "compilation_config": {"mode": 3}}
    )
    found = engine_arguments(EngineConfig.model_validate(config.model_dump()), "model")
    assert (found["gpu_memory_utilization"], found["compilation_config"]) == (0.5, {"mode": 3})
    assert found["tensor_parallel_size"] == 2
    assert "kv_cache_memory_bytes" not in found
    shared = engine_arguments(EngineConfig(tensor_parallel_size=1), "model")
    assert (shared["gpu_memory_utilization"], shared["kv_cache_memory_bytes"]) == (FREE_SHARE_AT_START, 256 << 20)
    assert engine_arguments(EngineConfig(), "model")["kv_cache_memory_bytes"] == EngineConfig().kv_cache_memory_bytes


def test_an_engine_reads_safetensors_alone() -> None:
    """vLLM's default falls back to ``*.bin``, which it unpickles."""
    assert engine_arguments(EngineConfig(), "model")["load_format"] == "safetensors"
    with pytest.raises(ValidationError, match="same safetensors"):
        EngineConfig.model_validate({"load_format": "auto"})


@pytest.mark.parametrize(
    ("name", "reason"),
    [("quantization", "another distribution"), ("trust_remote_code", "code of the model's publisher")],
)
def test_a_refused_argument_has_a_reason(name: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){name}.*not passed to vLLM: .*{reason}"):
        EngineConfig.model_validate({name: "x"})


def test_the_page_on_models_lists_every_argument_that_is_passed_through() -> None:
    page = (Path(__file__).parents[3] / "docs/models.md").read_text()
    listed = page.split("## Settings of the engine\n")[1].split("\n\n")[1]
    assert set(re.findall(r"`(\w+)`", listed)) == PASSED_THROUGH


def test_vllm_compiles_on_a_gpu_only() -> None:
    assert "TORCH_COMPILE_DISABLE" in environment_of(EngineConfig())
    assert "TORCH_COMPILE_DISABLE" not in environment_of(EngineConfig(tensor_parallel_size=1))
