"""The name of a run decides whether a command begins, resumes or forks it, or is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.store.database import open_database
from turnwise.store.errors import NotFound
from turnwise.tests.store.making import call, create_run, sqlite_store
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.preflight.refusal import Command, Refused
from turnwise.trainer.run.identity import NameFinished, Origin, RunIdentity, resolve_fork, resolve_run
from turnwise.trainer.run.run import _identify

CONFIG = parse_config({"name": "r", "environments": [{"id": "e"}]})
OTHER = parse_config({"name": "r", "environments": [{"id": "e"}], "seed": 1})


def rows(**status: str) -> Any:
    return lambda name: (
        SimpleNamespace(
            id=name,
            status=status[name.replace("-", "_")],
            config=CONFIG.resolved(),
            config_hash=CONFIG.digest(),
            parent_id=None,
            parent_version=None,
        )
        if name.replace("-", "_") in status
        else None
    )


def test_an_unknown_name_begins() -> None:
    assert resolve_run(CONFIG, rows(), False) == RunIdentity("r", resumes=False)


@pytest.mark.parametrize("status", ["running", "stopped", "failed"])
def test_an_unfinished_run_is_resumed_with_its_configuration_and_refused_with_another(status: str) -> None:
    assert resolve_run(CONFIG, rows(r=status), False) == RunIdentity("r", resumes=True)
    with pytest.raises(Refused, match=r"\(other values of `seed`\).*--fork"):
        resolve_run(OTHER, rows(r=status), False)


def test_a_refusal_names_the_keys_that_differ() -> None:
    changed = {
        "learner": {"learning_rate": 1e-3, "betas": [0.9, 0.99]},
        "loss": {"clip_ratio_low": 0.1},
        "evaluation": {"tasks": 3},
    }
    other = parse_config({"name": "r", "environments": [{"id": "e", "options": {"a": 1}}], **changed})
    with pytest.raises(Refused) as caught:
        resolve_run(other, rows(r="stopped"), False)
    assert "(other values of `environments`, `learner.betas`, `loss.clip_ratio_low`)" in str(caught.value)


def test_the_name_of_a_finished_run_begins_a_numbered_run() -> None:
    assert resolve_run(OTHER, rows(r="finished"), False) == RunIdentity("r-2", resumes=False)
    assert resolve_run(CONFIG, rows(r="finished", r_2="stopped"), False) == RunIdentity("r-2", resumes=True)


def test_a_finished_run_that_is_named_by_hand_is_refused() -> None:
    with pytest.raises(NameFinished, match=r"^run `r` is finished: raise `max_steps` .* runs fork r --name"):
        resolve_run(OTHER, rows(r="finished", r_2="stopped"), False, numbers=False)
    assert resolve_run(OTHER, rows(r="finished"), True, numbers=False) == RunIdentity("r-2", False, parent="r")
    assert resolve_run(CONFIG, rows(r="stopped"), False, numbers=False) == RunIdentity("r", resumes=True)


def test_a_finished_run_that_is_named_by_hand_goes_on_to_a_larger_limit() -> None:
    def limited(**changes: Any) -> RunConfig:
        return parse_config({"name": "r", "environments": [{"id": "e"}], "max_steps": 101} | changes)

    goes_on = resolve_run(limited(), rows(r="finished"), False, numbers=False)
    assert goes_on == RunIdentity("r", resumes=True, extends=True)
    assert goes_on.command is Command.RESUME
    assert resolve_run(limited(), rows(r="finished"), False) == RunIdentity("r-2", resumes=False)
    for other in (limited(seed=1), limited(max_steps=99), limited(max_steps=100), limited(max_seconds=9)):
        with pytest.raises(NameFinished):
            resolve_run(other, rows(r="finished"), False, numbers=False)


def test_a_fork_is_a_new_run_with_a_parent() -> None:
    assert resolve_run(OTHER, rows(r="stopped"), True) == RunIdentity("r-2", resumes=False, parent="r")
    assert resolve_run(OTHER, rows(r="finished"), True) == RunIdentity("r-2", resumes=False, parent="r")


def test_a_fork_is_resumed_by_the_command_that_began_it() -> None:
    stored: dict[str, Any] = {
        "r": SimpleNamespace(
            id="r", status="stopped", config_hash=CONFIG.digest(), parent_id=None, parent_version=None
        ),
        "r-2": SimpleNamespace(
            id="r-2", status="running", config_hash=OTHER.digest(), parent_id="r", parent_version=None
        ),
    }
    assert resolve_run(OTHER, stored.get, True) == RunIdentity("r-2", resumes=True, parent="r")
    assert resolve_run(OTHER, stored.get, False) == RunIdentity("r-2", resumes=True, parent="r")
    assert resolve_run(CONFIG, stored.get, False) == RunIdentity("r", resumes=True)


def test_a_failed_run_that_has_neither_played_nor_saved_frees_its_name() -> None:
    freed = resolve_run(OTHER, rows(r="failed"), False, lambda name: True)
    assert freed == RunIdentity("r", resumes=True, is_freed=True)
    assert freed.command is Command.TRAIN, "its configuration was never checked"
    for status, empty in (("failed", False), ("stopped", True), ("running", True)):
        with pytest.raises(Refused):
            resolve_run(OTHER, rows(r=status), False, lambda name, empty=empty: empty)  # type: ignore[misc]


def test_an_empty_fork_is_neither_freed_nor_forked() -> None:
    stored = {
        "r": SimpleNamespace(id="r", status="stopped", config=CONFIG.resolved(), config_hash="a", parent_id=None),
        "r-2": SimpleNamespace(id="r-2", status="failed", config=CONFIG.resolved(), config_hash="b", parent_id="r"),
    }
    assert resolve_run(OTHER, stored.get, True, lambda name: name == "r-2") == RunIdentity("r-3", False, parent="r")  # type: ignore[arg-type]
    with pytest.raises(Refused, match=r"run `r-2` is unfinished \(failed\)"):
        resolve_run(OTHER, stored.get, False, lambda name: name == "r-2")  # type: ignore[arg-type]


def test_a_fork_of_a_checkpoint_has_its_own_name_or_the_next_number() -> None:
    origin = Origin("r", 7)
    forked = RunIdentity("r-2", resumes=False, parent="r", parent_version=7)
    assert resolve_fork(CONFIG, rows(r="finished"), origin) == forked
    named = CONFIG.model_copy(update={"name": "b"})
    assert resolve_fork(named, rows(r="finished"), origin) == RunIdentity("b", False, "r", 7)
    with pytest.raises(Refused, match=r"the store has a run `b` already \(finished\): choose another `--name`"):
        resolve_fork(named, rows(r="finished", b="finished"), origin)


def test_the_same_fork_of_a_checkpoint_is_resumed() -> None:
    def stored(name: str) -> Any:
        row = {"id": name, "status": "stopped", "config_hash": CONFIG.digest(), "parent_id": "r", "parent_version": 7}
        return SimpleNamespace(**row) if name in ("r", "r-2") else None

    assert resolve_fork(CONFIG, stored, Origin("r", 7)) == RunIdentity("r", resumes=True, parent="r", parent_version=7)
    assert resolve_fork(CONFIG, stored, Origin("r", 8)).name == "r-3"


def test_a_fork_that_begins_again_needs_the_checkpoint_of_its_origin(tmp_path: Path) -> None:
    database = open_database(sqlite_store(tmp_path))
    create_run(database, "r")
    version = call(database, "add_version", run="r", update=0, parent=None)
    call(database, "set_checkpoint", run="r", version=version, path=str(tmp_path / "gone"))
    stored = {"config": CONFIG.resolved(), "config_hash": CONFIG.digest()}
    create_run(database, "r-2", parent="r", parent_version=version, **stored)
    try:
        for fork in (Origin("r", version), True):
            with pytest.raises(NotFound, match=r"the checkpoint of update 0 of run r, .*gone`, is gone"):
                _identify(CONFIG, database, fork)
        own = call(database, "add_version", run="r-2", update=0, parent=None)
        call(database, "set_checkpoint", run="r-2", version=own, path=str(tmp_path / "kept"))
        assert _identify(CONFIG, database, Origin("r", version)).resumes
    finally:
        database.close()
