"""A run that fails after it began ends its command with 1; one that is refused, with 2."""

import asyncio
from pathlib import Path

import pytest
from turnwise.errors import FAILED, REFUSED, TurnwiseError
from turnwise.store.database import open_database
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.backends.base import RankFailed
from turnwise.trainer.preflight.refusal import Refusal, Refused
from turnwise.trainer.run.callbacks import Callbacks
from turnwise.trainer.run.driver import Driver
from turnwise.trainer.run.identity import RunIdentity


@pytest.mark.parametrize(
    ("recorded", "error", "code"),
    [
        (True, TurnwiseError("10 consecutive batches had nothing to train on"), FAILED),
        (True, RankFailed("rank 1 died"), FAILED),
        (True, Refused([Refusal("environments", "the world cannot be leased")]), REFUSED),
        (False, TurnwiseError("no intact checkpoint"), REFUSED),
    ],
)
def test_the_exit_code_says_whether_the_run_had_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, error: TurnwiseError, code: int
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    config = parse_config({"name": "r", "environments": [{"id": "e"}]})
    driver = Driver(config, database, RunIdentity("r", resumes=False), lambda event: None, 0.0, Callbacks(()))

    async def fail() -> None:
        driver._recorded = recorded
        raise error

    monkeypatch.setattr(driver, "_run", fail)
    with pytest.raises(TurnwiseError) as failed:
        asyncio.run(driver._main())
    database.close()
    assert failed.value.exit_code == code
