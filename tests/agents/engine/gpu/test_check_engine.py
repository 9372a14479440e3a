"""``check_engine.py`` checks engines on a CPU (`make soak`), and reports a missing GPU and a missing vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.tests.agents.engine.gpu import check_engine

CHECK = Path(__file__).parent / "check_engine.py"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(CHECK), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.soak
@pytest.mark.slow
def test_engines_are_checked_on_a_cpu() -> None:
    done = run("--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["failed"] == []
    for part in ("shm", "adapter"):
        assert result[part]["tokens"] >= 1000
        assert result[part]["updated_turns"] >= 1
        assert result[part]["max_difference"] <= 1e-4


@pytest.mark.slow
def test_a_missing_gpu_is_reported() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no GPU was found")


def test_a_missing_vllm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_engine, "find_spec", lambda name: None if name == "vllm" else name)
    assert check_engine.obstacle("cuda") == "`vllm` cannot be imported"
    monkeypatch.setattr(check_engine, "find_spec", lambda name: None)
    assert check_engine.obstacle("cpu") == "`vllm` and `ray` cannot be imported"
