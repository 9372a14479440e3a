"""Busy fractions between two updates."""

from turnwise.trainer.telemetry.utilization import Utilization


def test_fractions_are_those_since_the_last_update() -> None:
    busy = Utilization(engines=2, busy_s=10.0)
    assert busy.since_last(13.0, 1.0, 2.0) == {"learner_busy_fraction": 0.5, "engine_busy_fraction": 0.75}
    assert busy.since_last(14.0, 4.0, 4.0) == {"learner_busy_fraction": 1.0, "engine_busy_fraction": 0.125}


def test_a_restarted_engine_counts_as_idle() -> None:
    assert Utilization(1, 10.0).since_last(0.5, 0.0, 1.0)["engine_busy_fraction"] == 0.0
