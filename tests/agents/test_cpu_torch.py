"""Packages built for CUDA next to a CPU build of torch, in processes that do not import turnwise."""

import subprocess
import sys
from pathlib import Path

import pytest

IMPORTS = (
    "from vllm.model_executor.models import qwen3_vl",
    *(
        pytest.param(line, marks=pytest.mark.soak)
        for line in (
            "import torch, torchvision",
            "from transformers import LlamaForCausalLM, Qwen2VLImageProcessor",
            "import peft",
        )
    ),
)


@pytest.mark.parametrize("line", IMPORTS)
def test_torchvision_is_imported_in_a_process_that_does_not_import_turnwise(line: str, tmp_path: Path) -> None:
    """vLLM inspects the class of a model in such a process."""
    command = [sys.executable, "-c", line]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
