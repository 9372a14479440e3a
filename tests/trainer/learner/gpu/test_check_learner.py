"""``make test-gpu`` runs on a CPU when told to, and otherwise reports that there is no GPU."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECK = Path(__file__).parent / "check_learner.py"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(CHECK), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.soak
def test_the_learner_is_checked_without_ray_and_vllm() -> None:
    done = run("--device", "cpu")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["failed"] == []
    assert {"qwen3_vl", "qwen3_vl_adapter"} <= result.keys()  # without torchvision, images are not checked
    assert result["one_sharded_rank"]["difference"] < 1e-5


class Lacks:
    """An import hook for an interpreter without a package."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pydantic":
            raise ModuleNotFoundError("No module named 'pydantic'", name="pydantic")


def test_a_missing_package_is_one_line_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Lacks(), *sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "pydantic", raising=False)
    monkeypatch.setattr(sys, "argv", ["check_learner.py", "--device", "cpu"])
    assert runpy.run_path(str(CHECK))["main"]() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(
        "not installed: pydantic; run `pip install pydantic`. Without a network, run `pip dow"
    )
    assert printed.err.count("\n") == 1


@pytest.mark.slow
def test_a_missing_gpu_is_reported() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no GPU was found")
