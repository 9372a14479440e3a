"""A session that fails after its start ends with the exit code of a failure, and records the run as failed."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest
from turnwise.envs.worlds.text.guess_number import GuessNumberEnv
from turnwise.errors import FAILED, TurnwiseError
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.trainer.cluster.engines import EngineGroup
from turnwise.trainer.evaluation.session import _recorded, _while_served
from turnwise.trainer.evaluation.tasks import evaluate
from turnwise.trainer.shutdown import SHUTDOWN


class Driven(GuessNumberEnv):
    """Names a runner that does not exist."""

    runner = "driven"


gymnasium.register("session/Driven-v0", entry_point=Driven)  # type: ignore[arg-type]


def test_an_error_while_episodes_are_played_is_a_failure_and_not_a_refusal(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/turnwise.db"
    with pytest.raises(TurnwiseError, match="declares the runner 'driven'") as raised:
        evaluate("random", "session/Driven-v0", tasks=1, name="e", store_url=store)
    assert raised.value.exit_code == FAILED
    with open_database(store).read() as conn:
        run = queries.find_run(conn, "e")
    assert run.status == "failed"
    assert "declares the runner" in run.error


def test_engines_that_cannot_serve_end_the_session() -> None:
    """Otherwise their episodes would be left out of the rates one by one, and the command would succeed."""

    async def play(engines: EngineGroup) -> int:
        return await _while_served(engines, asyncio.sleep(0, result=7))

    engines = EngineGroup([])
    assert asyncio.run(play(engines)) == 7
    engines.failure = TurnwiseError("engines died 4 times")
    with pytest.raises(TurnwiseError, match="engines died 4 times"):
        asyncio.run(play(engines))


def test_the_signal_that_stops_a_session_is_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[str, str]] = []

    async def create(**row: object) -> None:
        """Store nothing."""

    async def finish(status: str, error: str = "") -> None:
        ends.append((status, error))

    async def stopped() -> None:
        async with _recorded(SimpleNamespace(create=create, finish=finish), {}):  # type: ignore[arg-type]
            raise asyncio.CancelledError

    monkeypatch.setattr(SHUTDOWN, "reason", "SIGTERM")
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    assert ends == [("stopped", "SIGTERM")]
