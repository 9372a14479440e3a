"""The installed vLLM has every inner name that turnwise leans on."""

import json
import os
import subprocess
import sys

import pytest
from turnwise.agents.engine.actor import CPU_ENVIRONMENT
from turnwise.agents.engine.vllm_names import ASYNC_LLM, CPU, CPU_SPEED, ENGINE_CORE, WEIGHTS

pytestmark = pytest.mark.slow

NAMES = (*ENGINE_CORE, *ASYNC_LLM, *WEIGHTS, *CPU, *CPU_SPEED)
GONE = (
    "vllm.v1.engine.core:EngineCore.no_such_method",
    "vllm.v1.engine.core:NoSuchClass.step",
    "vllm.no_such_module:Anything",
)
PROGRAM = """
import json, sys
from turnwise.agents.engine.vllm_names import missing
print(json.dumps(missing(json.load(sys.stdin))))
"""


@pytest.fixture(scope="module")
def gone() -> list[str]:
    """Return the names that a process with the environment of an engine finds missing."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([*NAMES, *GONE]),
        env={**os.environ, **CPU_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_vllm_has_the_name(name: str, gone: list[str]) -> None:
    assert name not in gone


@pytest.mark.parametrize("name", GONE)
def test_a_name_that_is_gone_is_found_missing(name: str, gone: list[str]) -> None:
    assert name in gone
