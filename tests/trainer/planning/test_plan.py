from pathlib import Path
from typing import Any

import pytest
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.preflight.refusing import call
from turnwise.trainer.planning.machine import Machine, parse_size, this_machine
from turnwise.trainer.planning.model_source import model_shape
from turnwise.trainer.planning.plan import GPU_RESERVE, expected_flow, plan_run
from turnwise.trainer.preflight import machine as memory

from .planned_runs import run_config, small_shape

GIB = 1 << 30
EXAMPLES = Path(__file__).parents[3] / "examples"
GPU = {"learner": {"device": "cuda"}, "engine": {"tensor_parallel_size": 1}}


def needed(config, machine=None) -> dict[str, int]:
    plan = plan_run(config, machine or Machine(64 * GIB), small_shape())
    return {place.name: place.needed for place in plan.places}


def test_a_run_without_gpus_needs_the_memory_of_its_host_alone() -> None:
    plan = plan_run(run_config(), Machine(64 * GIB), small_shape())
    assert [place.name for place in plan.places] == ["memory"]
    assert plan.places[0].needed == sum(one.count * one.total for one in plan.processes)
    assert plan.refusals == []


def test_the_learner_of_the_driver_shares_the_first_gpu_with_the_first_engine() -> None:
    assert list(needed(run_config(**GPU))) == ["gpu 0", "memory"]
    two = run_config(**GPU, rollout={"num_engines": 2})
    places = needed(two)
    assert places["gpu 0"] > places["gpu 1"]


def test_each_rank_has_a_gpu_of_its_own() -> None:
    learner = {"device": "cuda", "backend": "fsdp", "num_ranks": 4}
    config = run_config(learner=learner, engine={"tensor_parallel_size": 2}, rollout={"num_engines": 2})
    assert list(needed(config)) == [f"gpu {number}" for number in range(8)] + ["memory"]
    plan = plan_run(config, Machine(64 * GIB, (80 * GIB,) * 4), small_shape())
    assert plan.refusals == ["the run needs 8 GPUs, and this machine has 4"]


def test_an_offline_run_has_no_engine() -> None:
    names = [one.name for one in plan_run(run_config(offline={"run": "a"}), Machine(GIB), small_shape()).processes]
    assert names == ["driver with the learner"]


@pytest.mark.parametrize(
    ("changes", "is_copied"),
    [
        ({}, True),
        ({"learner": {"weight_transport": "collective"}}, False),
        ({"learner": {"backend": "fsdp", "device": "cuda"}, "engine": {"tensor_parallel_size": 1}}, False),
        ({"offline": {"run": "a"}}, False),
    ],
)
def test_shared_memory_holds_a_copy_of_the_weights(changes: dict[str, Any], is_copied: bool) -> None:
    plan = plan_run(run_config(**changes), Machine(64 * GIB), small_shape())
    assert any("published weights" in one.parts for one in plan.processes) == is_copied


def test_a_gpu_keeps_a_reserve() -> None:
    plan = plan_run(run_config(**GPU), Machine(64 * GIB, (24 * GIB,)), small_shape())
    assert plan.places[0].available == int(24 * GIB * (1 - GPU_RESERVE))


def test_the_cache_holds_as_many_tokens_as_its_bytes() -> None:
    engine = plan_run(run_config(), Machine(64 * GIB), small_shape()).engine
    assert engine.bytes_per_token == 2 * 4 * 4 * 32 * 4
    assert engine.cached_tokens == (256 << 20) // engine.bytes_per_token


def test_a_cache_below_one_context_is_refused_and_the_size_that_holds_one_is_named() -> None:
    config = run_config(engine={"kv_cache_memory_bytes": 1 << 20})
    plan = plan_run(config, Machine(64 * GIB), small_shape())
    assert "1024" in plan.refusals[0]
    least = int(plan.refusals[0].rpartition("at least ")[2])
    for size, fits in ((least, True), (least - 1, False)):
        config = run_config(engine={"kv_cache_memory_bytes": size})
        assert (plan_run(config, Machine(64 * GIB), small_shape()).refusals == []) == fits
    config = run_config(engine={"kv_cache_memory_bytes": 1 << 20})
    assert plan_run(config, Machine(64 * GIB), small_shape(has_windows=True)).refusals == []


def test_a_gpu_that_the_machine_lacks_has_no_memory() -> None:
    plan = plan_run(run_config(**GPU, rollout={"num_engines": 2}), Machine(64 * GIB, (80 * GIB,)), small_shape())
    assert [place.available for place in plan.places if place.name == "gpu 1"] == [0]
    assert plan.refusals == ["the run needs 2 GPUs, and this machine has 1"]


def test_a_cache_that_vllm_sizes_is_not_planned() -> None:
    config = run_config(engine={"tensor_parallel_size": 1, "gpu_memory_utilization": 0.5})
    with pytest.raises(TurnwiseError, match="kv_cache_memory_bytes"):
        plan_run(config, Machine(64 * GIB), small_shape())


def test_staleness_is_bounded_by_the_groups_in_flight_and_by_the_limit() -> None:
    rollout = {"groups_per_batch": 16, "max_concurrent_groups": 8, "max_staleness": 2}
    assert expected_flow(run_config(rollout=rollout)).staleness == 0.5
    assert expected_flow(run_config(rollout=rollout | {"max_concurrent_groups": 100})).staleness == 2
    assert expected_flow(run_config(rollout=rollout | {"max_staleness": 0})).staleness == 0


def test_tokens_in_flight_are_bounded_by_the_slots_of_the_environments() -> None:
    environments, rollout = [{"id": "a", "concurrency": 10}], {"workers_per_node": 2}
    flow = expected_flow(run_config(environments=environments, rollout=rollout))
    assert (flow.episodes, flow.tokens) == (20, 20 * 1024)
    elsewhere = run_config(environments=environments, rollout=rollout, ray_address="10.0.0.1:6379")
    assert expected_flow(elsewhere).episodes > 20, "the number of nodes is unknown"


def test_a_run_is_refused_only_if_it_certainly_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    config = run_config(learner={"max_tokens_per_micro_batch": 65_536})
    total = plan_run(config, Machine(1), model_shape(config)).places[0].needed
    monkeypatch.setattr(memory, "this_machine", lambda: Machine(int(total / 1.1)))
    call(memory.too_little_memory, config)
    monkeypatch.setattr(memory, "this_machine", lambda: Machine(int(total / 1.3)))
    with pytest.raises(TurnwiseError, match="the run cannot fit: memory needs"):
        call(memory.too_little_memory, config)


def test_the_gpus_of_this_machine_do_not_refuse_a_run_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "this_machine", lambda: Machine(64 * GIB, (1 << 20,)))
    call(memory.too_little_memory, run_config(**GPU, ray_address="auto"))
    with pytest.raises(TurnwiseError, match="gpu 0 needs"):
        call(memory.too_little_memory, run_config(**GPU))


def test_the_memory_of_this_machine_is_found() -> None:
    assert this_machine().memory > GIB


@pytest.mark.parametrize(("text", "size"), [("24GiB", 24 * GIB), ("80GB", 80 * 10**9), ("1.5g", 15 * 10**8), ("7", 7)])
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_another_text_is_not_a_size() -> None:
    with pytest.raises(TurnwiseError, match="24GiB"):
        parse_size("many")
