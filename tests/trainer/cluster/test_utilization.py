"""Busy fractions between two updates."""

from turnwise.trainer.cluster.usage import Busy, Utilization


def test_fractions_are_those_since_the_last_update() -> None:
    utilization = Utilization({"engine": Busy(10.0, 2), "worker": Busy(1.0, 1)})
    assert utilization.since_last({"engine": Busy(13.0, 2), "worker": Busy(1.5, 1)}, 1.0, 2.0) == {
        "learner_busy_fraction": 0.5,
        "engine_busy_fraction": 0.75,
        "worker_busy_fraction": 0.25,
    }
    assert utilization.since_last({"engine": Busy(14.0, 2), "worker": Busy(10.0, 2)}, 4.0, 4.0) == {
        "learner_busy_fraction": 1.0,
        "engine_busy_fraction": 0.125,
        "worker_busy_fraction": 1.0,
    }


def test_an_evaluation_between_two_updates_does_not_count() -> None:
    utilization = Utilization({"engine": Busy(10.0, 1)})
    utilization.restart({"engine": Busy(20.0, 1)})
    assert utilization.since_last({"engine": Busy(21.0, 1)}, 0.0, 4.0)["engine_busy_fraction"] == 0.25
