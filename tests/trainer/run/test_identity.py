"""A run is its name: begun, resumed, forked or refused."""

import pytest
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.run.identity import Identity, RunRefused, decide

CONFIG = parse_config({"name": "r", "environments": [{"id": "e"}]})
OTHER = parse_config({"name": "r", "environments": [{"id": "e"}], "seed": 1})


def rows(**status: str):
    return lambda name: (
        {"id": name, "status": status[name.replace("-", "_")], "config_hash": CONFIG.digest(), "parent_id": None}
        if name.replace("-", "_") in status
        else None
    )


def test_an_unknown_name_begins() -> None:
    assert decide(CONFIG, rows(), False) == Identity("r", resumes=False)


@pytest.mark.parametrize("status", ["running", "stopped", "failed"])
def test_an_unfinished_run_is_resumed_with_its_configuration_and_refused_with_another(status: str) -> None:
    assert decide(CONFIG, rows(r=status), False) == Identity("r", resumes=True)
    with pytest.raises(RunRefused, match="--fork"):
        decide(OTHER, rows(r=status), False)


def test_a_finished_run_makes_room_for_a_new_one() -> None:
    assert decide(OTHER, rows(r="finished"), False) == Identity("r-2", resumes=False)
    assert decide(CONFIG, rows(r="finished", r_2="stopped"), False) == Identity("r-2", resumes=True)


def test_a_fork_is_a_new_run_with_a_parent() -> None:
    assert decide(OTHER, rows(r="stopped"), True) == Identity("r-2", resumes=False, parent="r")
    assert decide(OTHER, rows(r="finished"), True) == Identity("r-2", resumes=False, parent="r")


def test_a_fork_is_resumed_by_the_command_that_made_it() -> None:
    stored = {
        "r": {"id": "r", "status": "stopped", "config_hash": CONFIG.digest(), "parent_id": None},
        "r-2": {"id": "r-2", "status": "running", "config_hash": OTHER.digest(), "parent_id": "r"},
    }
    assert decide(OTHER, stored.get, True) == Identity("r-2", resumes=True, parent="r")
    assert decide(OTHER, stored.get, False) == Identity("r-2", resumes=True, parent="r")
    assert decide(CONFIG, stored.get, False) == Identity("r", resumes=True)
