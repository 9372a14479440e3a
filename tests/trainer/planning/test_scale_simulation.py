"""The simulation of ``benchmarks/scale_simulation.py`` agrees with closed forms where they exist."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnwise.benchmarks.parts.scale.inputs import FULL, Assumptions, Costs, Size
from turnwise.benchmarks.parts.scale.stations import Engine, Queue
from turnwise.benchmarks.parts.scale.sweep import sweep
from turnwise.benchmarks.parts.scale.system import BYTES_PER_PARAMETER, Result, Simulation

TINY = 1e-9
CHEAP = Costs(
    turns_per_episode=4,
    observed_tokens_per_turn=100,
    sampled_tokens_per_turn=10,
    driver_s_per_turn=TINY,
    assembly_s_per_turn=TINY / 2,
    worker_s_per_turn=TINY,
    writer_s_per_turn=TINY,
    database_s_per_turn=TINY,
    database_bytes_per_turn=1,
    ray_s_per_call=TINY,
    group_bytes=1,
    batch_bytes_per_turn=1,
)
FAST = Assumptions(
    step_s=1.0, engine_tokens_per_s=1e9, request_tokens_per_s=1e9, prompt_tokens_per_s=1e12, rank_tokens_per_s=1e12
)
"""Nothing takes time but the environment and the transfer of weights, which has none to send."""
NO_WEIGHTS = replace(FAST, parameters=TINY)
SMALL = Size(sandboxes=64, engines=4, ranks=1, workers=2, nodes=1)


def simulate(costs: Costs = CHEAP, assumed: Assumptions = NO_WEIGHTS, size: Size = SMALL, updates: int = 12) -> Result:
    return Simulation(size, costs, assumed).run(updates)


def test_a_queue_waits_as_long_as_an_m_d_1_queue() -> None:
    draws, station, service_s, load = random.Random(1), Queue(), 0.5, 0.8
    now = waited = 0.0
    count = 100_000
    for _ in range(count):
        now += draws.expovariate(load / service_s)
        waited += station.serve(now, service_s) - service_s - now
    assert waited / count == pytest.approx(load * service_s / (2 * (1 - load)), rel=0.05)
    assert station.utilization(now) == pytest.approx(load, rel=0.02)


def test_two_servers_serve_two_requests_at_once() -> None:
    station = Queue(2)
    assert [station.serve(0.0, 1.0) for _ in range(5)] == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_requests_of_an_engine_share_its_rate_up_to_that_of_one_request() -> None:
    engine = Engine(tokens_per_s=100.0, request_tokens_per_s=60.0)
    engine.start(0.0, 60.0, "a")
    assert engine.next_end() == 1.0, "one request gets 60 tokens per second, not 100"
    engine.start(0.5, 100.0, "b")
    assert engine.next_end() == pytest.approx(0.5 + 30 / 50), "two get 50 each"
    assert engine.finish(1.1) == "a"
    assert engine.next_end() == pytest.approx(1.1 + 70 / 60)


def test_a_paused_engine_samples_nothing() -> None:
    engine = Engine(100.0, 100.0)
    engine.start(0.0, 100.0, "a")
    engine.pause(0.25, 2.0)
    assert engine.next_end() == pytest.approx(3.0)
    engine.finish(3.0)
    assert engine.busy_s == pytest.approx(1.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 50)), min_size=1, max_size=20))
def test_an_engine_samples_every_token_once(requests: list[tuple[float, float]]) -> None:
    engine, now, left = Engine(10.0, 4.0), 0.0, 0
    for gap, tokens in requests:
        while (end := engine.next_end()) is not None and end <= now + gap:
            engine.finish(end)
            left -= 1
        now += gap
        engine.start(now, tokens, None)
        left += 1
    for _ in range(left):
        end = engine.next_end()
        assert end is not None
        assert end >= now - 1e-9  # a sum of the same numbers in another order
        engine.finish(now := end)
    assert engine.busy_s * 10.0 == pytest.approx(sum(tokens for _, tokens in requests))


def test_twice_the_size_plays_twice_the_turns_where_nothing_is_saturated() -> None:
    one, two = (simulate(size=Size.of(64 * factor, replace(FULL, sandboxes=1000)), updates=40) for factor in (1, 2))
    assert two.turns_per_s / one.turns_per_s == pytest.approx(2, rel=0.1)
    assert one.utilization["training loop"] < 0.01


@pytest.mark.parametrize(
    ("station", "changed", "turns_per_s"),
    [
        ("driver", {"driver_s_per_turn": 0.2}, 5),
        ("driver", {"driver_s_per_turn": 0.2, "assembly_s_per_turn": 0.08}, 5),
        ("writers", {"writer_s_per_turn": 0.2}, 5),
        ("workers", {"worker_s_per_turn": 0.2}, 10),
        ("database", {"database_s_per_turn": 2.0}, 8),
    ],
)
def test_a_saturated_station_bounds_the_rate(station: str, changed: dict[str, float], turns_per_s: float) -> None:
    found = simulate(replace(CHEAP, **changed), updates=15)
    assert found.turns_per_s == pytest.approx(turns_per_s, rel=0.05)
    assert found.utilization[station] > 0.95


def test_a_saturated_engine_bounds_the_rate() -> None:
    sampling = replace(NO_WEIGHTS, engine_tokens_per_s=50, request_tokens_per_s=50, prompt_tokens_per_s=1e12)
    found = simulate(assumed=sampling, updates=15)
    assert found.turns_per_s == pytest.approx(4 * 50 / 10, rel=0.1)


def test_updates_wait_for_one_engine_after_the_other() -> None:
    slow = replace(FAST, parameters=1e9, network_bytes_per_s=BYTES_PER_PARAMETER * 1e8)  # 10 s per engine
    one, all_at_once = (
        Simulation(SMALL, CHEAP, slow, engines_at_once=count).run(12).updates_per_hour for count in (1, 4)
    )
    assert one == pytest.approx(3600 / 40, rel=0.05)
    assert all_at_once > 2.5 * one


@settings(max_examples=10, deadline=None)
@given(
    st.fixed_dictionaries(
        {name: st.floats(1e-4, 0.05) for name in ("worker_s_per_turn", "writer_s_per_turn", "database_s_per_turn")}
    )
)
def test_the_rate_is_within_the_bounds_of_a_closed_network(changed: dict[str, float]) -> None:
    costs = replace(CHEAP, **changed, driver_s_per_turn=0.002)
    found = simulate(costs, updates=8)
    turn_s = NO_WEIGHTS.step_s + sum(changed.values())
    bounds = [1 / costs.driver_s_per_turn, 2 / costs.worker_s_per_turn, 1 / costs.writer_s_per_turn]
    assert found.turns_per_s <= 1.15 * min([*bounds, 64 / turn_s, 16 / costs.database_s_per_turn])


def test_a_sweep_names_the_size_and_the_station_that_end_the_growth() -> None:
    costs = replace(CHEAP, driver_s_per_turn=0.01)
    found = sweep(
        [32, 64, 256], costs, NO_WEIGHTS, lambda size: 1, replace(FULL, sandboxes=1000), measured_turns=10_000
    )
    assert found["first_saturated"] == {"station": "driver", "sandboxes": 256}
    assert found["linear_up_to"] == 64
    assert 64 < found["alone_up_to"]["driver"] < 256
    assert [one["linear_share"] >= 0.9 for one in found["sizes"]] == [True, True, False]
