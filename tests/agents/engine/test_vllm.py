"""The installed vLLM has every inner name that turnwise leans on, and is changed as intended.

On a CPU, engines store float32 matrices by columns, for products of few rows, and compute norms by vLLM's kernel. An
engine of another data type than the learner's loads weights without a line in its log for each of them.
"""

from typing import Any

import pytest
from turnwise.tests.agents.engine.vllm_names import CPU, ENGINE_CORE, WEIGHTS
from turnwise.tests.agents.engine.vllm_process import ask

pytestmark = pytest.mark.slow

NAMES = (*ENGINE_CORE, *WEIGHTS, *CPU)
GONE = (
    "vllm.v1.engine.core:EngineCore.no_such_method",
    "vllm.v1.engine.core:NoSuchClass.step",
    "vllm.no_such_module:Anything",
)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Return what a process with the environment of an engine finds."""
    return ask([*NAMES, *GONE])


def test_vllm_has_every_name_and_one_that_is_gone_is_found_missing(found: dict[str, Any]) -> None:
    assert found["missing"] == list(GONE)


def test_weights_of_another_data_type_are_loaded_without_a_warning_for_each(found: dict[str, Any]) -> None:
    before, after = found["loads"]
    (warning,) = before["warnings"]
    assert warning.startswith("Attempted to load weight")
    assert after["warnings"] == []
    assert [before["weight"], after["weight"]] == [[[1.0, 1.0]] * 2, [[2.0, 2.0]] * 2]


def test_matrices_in_float32_are_stored_by_columns_and_loaded_in_place(found: dict[str, Any]) -> None:
    assert found["columns"]["torch.float32"]["stride"] == [1, 6]
    assert found["columns"]["torch.bfloat16"]["stride"] == [8, 1]
    for one in found["columns"].values():
        assert one["same"]
        assert one["difference"] < 1e-5


def test_the_norms_equal_the_native_ones_where_they_are_used(found: dict[str, Any]) -> None:
    for one in found["norms"]:
        is_exact = one["dtype"] == "float32" and one["hidden"] % 16 == 0
        assert (one["rms_norm"] is not None) == is_exact, one
        assert (one["fused_add_rms_norm"] is not None) == (is_exact and not one["strided"]), one
        assert max(one["rms_norm"] or 0, one["fused_add_rms_norm"] or 0) < 1e-5, one
