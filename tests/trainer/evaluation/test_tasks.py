"""``evaluate`` uses the settings of the checkpoint's run, and sends concurrent requests to a server."""

import base64
import traceback
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from turnwise.errors import TurnwiseError
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.agents.servers import Counter, serving
from turnwise.trainer.config.sections import EnvironmentConfig
from turnwise.trainer.evaluation.tasks import environments_of, evaluate
from turnwise.trainer.telemetry.events import EvalResult

EPISODES = 24
TURNS = 3


def test_a_server_gets_concurrent_requests_of_all_episodes_over_persistent_connections(tmp_path: Path) -> None:
    counter = Counter("back", together=EPISODES, patience_s=10)
    with serving(counter) as url:
        result = evaluate(
            url, "turnwise/TextSite-v0", tasks=EPISODES, turns=TURNS, store_url=f"sqlite:///{tmp_path}/turnwise.db"
        )
    assert (result.tasks, result.failed, result.turns) == (EPISODES, 0, TURNS)
    assert counter.arrived == EPISODES * TURNS
    assert counter.most == EPISODES
    assert counter.connections == EPISODES


def test_a_server_gets_the_temperature_for_each_sample_of_a_task(tmp_path: Path) -> None:
    counter = Counter("back", together=6, patience_s=10)
    store = f"sqlite:///{tmp_path}/turnwise.db"
    with serving(counter) as url:
        result = evaluate(url, "turnwise/TextSite-v0", tasks=2, samples=3, temperature=0, turns=1, store_url=store)
    assert [body["temperature"] for body in counter.bodies] == [0] * 6
    assert (result.tasks, result.episodes, result.pass_at) == (2, 6, {"2": 0.0, "3": 0.0})
    assert (result.samples, result.temperature) == (3, 0)
    with open_database(store).read() as conn:
        played = queries.list_trajectories(conn, limit=10, run=result.run)
        config = queries.find_run(conn, result.run).config
    members = [(one.group_id.rpartition("-")[2], one.member) for one in played]
    assert sorted(members) == [(task, member) for task in "01" for member in range(3)]
    assert {one.purpose for one in played} == {"eval"}, "only groups for training are leased"
    assert (config["samples"], config["rollout"]["temperature"]) == (3, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": -3}, "samples -3: "),
        ({"samples": 0}, "samples 0: "),
        ({"samples": 1025}, "at most 1024 samples"),
        ({"tasks": 0}, "tasks 0, "),
        ({"split": "dev"}, "the split 'dev': name `train` or `test`"),
        ({"temperature": 0.005}, "temperature 0.005: must be 0"),
        ({"temperature": -1}, "temperature -1: must be 0"),
        ({"temperature": float("inf")}, "temperature inf: must be 0"),
        ({"temperature": float("nan")}, "temperature nan: must be 0"),
    ],
)
def test_numbers_that_cannot_be_used_are_refused_in_one_line(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    asked = {"tasks": 1, "store_url": f"sqlite:///{tmp_path}/turnwise.db", **settings}
    with pytest.raises(TurnwiseError, match=message) as raised:
        evaluate("random", "turnwise/TextSite-v0", **asked)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_options_beside_an_environment_with_its_own_are_refused() -> None:
    own = EnvironmentConfig(id="turnwise/TextSite-v0")
    with pytest.raises(TurnwiseError, match="`turnwise/TextSite-v0` has its own"):
        environments_of([own], {"pages": 4})
    assert environments_of([own]) == [own]


def test_the_secrets_of_a_server_s_url_are_sent_and_neither_stored_nor_shown(tmp_path: Path) -> None:
    counter = Counter("back", together=1, patience_s=0)
    with serving(counter) as url:
        host = url.removeprefix("http://")
        result = _evaluated(f"http://user:hunter%402@{host}/?key=hunter3", tmp_path)
    authorization = f"Basic {base64.b64encode(b'user:hunter@2').decode()}"
    assert counter.requested == {("/v1/chat/completions?key=hunter3", authorization)}
    assert result.name == f"http://user:***@{host}/?key=***"


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    with socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        result = _evaluated(f"http://user:hunter2@{host}/v1?sig=hunter3", tmp_path)
    assert result.failed == 1
    with open_database(f"sqlite:///{tmp_path}/turnwise.db").read() as conn:
        first, *_ = queries.failed_for_good(conn, result.run)
    assert f"http://{host}/v1/chat/completions?sig=*** did not answer: ConnectError" in first.error


def test_a_policy_that_is_not_a_url_is_named_without_its_password(tmp_path: Path) -> None:
    for policy in ("http://user:hunter2/3@host/v1", "user:hunter2@host"):
        with pytest.raises(TurnwiseError, match=r"user:\*\*\*@host") as raised:
            _evaluated(policy, tmp_path)
        assert "hunter" not in "".join(traceback.format_exception(raised.value))


def _evaluated(policy: str, folder: Path) -> EvalResult:
    """Return the result of one episode, after which no file in ``folder`` contains ``hunter``."""
    try:
        return evaluate(policy, "turnwise/TextSite-v0", tasks=1, turns=1, store_url=f"sqlite:///{folder}/turnwise.db")
    finally:
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"hunter" in path.read_bytes() or "hunter" in path.name]
