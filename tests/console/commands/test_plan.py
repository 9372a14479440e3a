"""`turnwise plan` on examples, with the published sizes of its model."""

import json
import re
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest
from turnwise.tests.console.conftest import Turnwise
from turnwise.tests.trainer.planning.planned_runs import model_folder
from turnwise.trainer.planning import machine

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CPU = ("quickstart", "tiny_code")
GPU = {
    "gpu_24gb": ("24GiB", "qwen3-0.6b"),
    "gpu_24gb_lora": ("24GiB", "qwen3-4b"),
    "eight_gpus": ("80GiB", "qwen3-4b"),
}
HOST = ("--memory", "64GiB")


@pytest.mark.parametrize("name", CPU)
def test_an_example_for_cpus_fits_on_a_small_machine(turnwise: Turnwise, name: str) -> None:
    found = turnwise("plan", EXAMPLES / f"{name}.toml", "--memory", "8GiB", "--json")
    assert found.code == 0
    assert [place["name"] for place in json.loads(found.out)["places"]] == ["memory"]


@pytest.mark.parametrize("name", GPU)
def test_an_example_for_gpus_fits_on_those_it_names(turnwise: Turnwise, tmp_path: Path, name: str) -> None:
    size, model = GPU[name]
    path = f"model.path={model_folder(model, tmp_path)}"
    found = turnwise("plan", EXAMPLES / f"{name}.toml", "--set", path, "--gpu-memory", size, *HOST)
    assert found.code == 0, found.out
    assert "does not fit" not in found.out
    assert "published sizes" not in found.out


def test_a_run_that_cannot_fit_exits_1_and_names_the_page_of_its_keys(turnwise: Turnwise, tmp_path: Path) -> None:
    path = f"model.path={model_folder('qwen3-0.6b', tmp_path)}"
    refused = turnwise("plan", EXAMPLES / "gpu_24gb.toml", "--set", path, "--gpu-memory", "16GiB", *HOST)
    assert refused.code == 1
    assert "cannot fit: gpu 0 needs" in refused.out
    assert "docs/training.md names the keys" in refused.out


def test_an_unknown_environment_is_named_before_the_sizes(turnwise: Turnwise, tmp_path: Path) -> None:
    path = f"model.path={model_folder('qwen3-0.6b', tmp_path)}"
    other = 'environments=[{id="turnwise/Cod-v0"}]'
    refused = turnwise("plan", EXAMPLES / "gpu_24gb.toml", "--set", path, "--set", other, "--gpu-memory", "24GiB")
    assert refused.code == 2
    assert "turnwise/Code-v0" in refused.err


def test_more_gpus_than_this_host_has_need_a_size(turnwise: Turnwise) -> None:
    found = turnwise("plan", EXAMPLES / "quickstart.toml", "--gpus", "64")
    assert found.code == 2
    assert "`--gpu-memory 80GiB`" in found.err


def test_a_run_for_gpus_does_not_fit_on_a_host_without_one(turnwise: Turnwise, tmp_path: Path) -> None:
    path = f"model.path={model_folder('qwen3-0.6b', tmp_path)}"
    found = turnwise("plan", EXAMPLES / "gpu_24gb.toml", "--set", path, "--gpus", "0", *HOST)
    assert found.code == 1, found.out
    assert "cannot fit: the run needs 1 GPU, and this machine has 0" in found.out
    assert turnwise("plan", EXAMPLES / "quickstart.toml", "--gpus", "0", "--memory", "8GiB").code == 0


def test_a_model_that_is_not_here_is_named(turnwise: Turnwise, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "gpu_24gb.toml", tmp_path)
    found = turnwise("plan", tmp_path / "gpu_24gb.toml", "--set", f"model.path={tmp_path / 'missing'}")
    assert found.code == 2
    assert "hf download" in found.err


def test_a_training_run_that_cannot_fit_is_refused_before_it_starts(turnwise: Turnwise, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs/turnwise.db"
    tiny_cache = "engine.kv_cache_memory_bytes=65536"
    found = turnwise("train", EXAMPLES / "quickstart.toml", "--set", tiny_cache, "--store", store)
    assert found.code == 2
    assert "the run cannot fit: `engine.kv_cache_memory_bytes` holds" in found.err
    assert ": set it to at least " in found.err


def models_shown() -> list[object]:
    """The configurations of docs/ that name a model."""
    pages = {page: page.read_text() for page in sorted((EXAMPLES.parent / "docs").rglob("*.md"))}
    return [
        pytest.param(shown, id=page.stem)
        for page, text in pages.items()
        for shown in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
        if "[model]\npath" in shown and "[[environments]]" in shown
    ]


@pytest.mark.parametrize("shown", models_shown())
def test_a_configuration_shown_fits_on_a_gpu_of_24_gib(turnwise: Turnwise, tmp_path: Path, shown: str) -> None:
    config = tmp_path / "shown.toml"
    config.write_text(shown)
    path = f"model.path={model_folder('qwen3-0.6b', tmp_path)}"
    shipped = [] if 'id = "turnwise/' in shown else ["--set", 'environments=[{id="turnwise/TextSite-v0"}]']
    found = turnwise("plan", config, "--set", path, *shipped, "--gpu-memory", "24GiB", *HOST)
    assert found.code == 0, found.out
    assert "fits" in found.out


def test_gpus_that_are_not_known_are_named_as_not_checked(
    turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_gpus", lambda: None)
    path = f"model.path={model_folder('qwen3-0.6b', tmp_path)}"
    found = turnwise("plan", EXAMPLES / "gpu_24gb.toml", "--set", path, *HOST)
    assert found.code == 0
    assert "not checked: gpu 0" in found.out
    assert "not checked" not in turnwise("plan", EXAMPLES / "quickstart.toml", *HOST).out


def test_a_model_that_is_nowhere_is_named_as_a_folder_too(turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    found = turnwise("plan", EXAMPLES / "gpu_24gb.toml", "--set", "model.path=models/nowhere")
    assert found.code == 2
    assert "there is no folder `models/nowhere`, and the hub's configuration of that name cannot be read" in found.err


@pytest.mark.parametrize(("name", "parameters"), [("gpu_24gb", 596_049_920), ("eight_gpus", 4_022_468_096)])
def test_an_example_for_gpus_is_planned_without_the_hub(
    turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch, name: str, parameters: int
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    found = turnwise("plan", EXAMPLES / f"{name}.toml", "--gpu-memory", "80GiB", "--memory", "900GiB", "--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["model"] == {"type": "qwen3", "parameters": parameters, "published": True}
    shown = turnwise("plan", EXAMPLES / f"{name}.toml", "--gpu-memory", "80GiB", "--memory", "900GiB").out
    assert f"qwen3, {parameters:,} parameters (published sizes: the hub cannot be reached)\n" in shown
    unknown = turnwise("plan", EXAMPLES / f"{name}.toml", "--set", "model.path=Qwen/Qwen9")
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)
    assert "the hub cannot be reached from this machine, and its cache lacks the model" in unknown.err
