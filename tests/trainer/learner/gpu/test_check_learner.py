"""``make test-gpu`` runs on a CPU when told to, and otherwise reports that there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parent / "check_learner.py"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(CHECK), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_the_learner_is_checked_without_ray_and_vllm() -> None:
    done = run("--device", "cpu")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["failed"] == []
    assert result["one_sharded_rank"]["difference"] < 1e-5


@pytest.mark.slow
def test_a_missing_gpu_is_reported() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no GPU was found")
