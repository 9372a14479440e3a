"""``evaluate`` uses the settings of the checkpoint's run, and sends concurrent requests to a server."""

import base64
import traceback
from functools import partial
from pathlib import Path
from socket import socket

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.records import Horizon
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.agents.servers import Counter, serving
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.evaluation.heldout import EvalResult
from turnwise.trainer.evaluation.settings import _with_options, settings_of
from turnwise.trainer.evaluation.standalone import evaluate
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.state_files import save_state

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
    assert f"http://{host}/v1/chat/completions?sig=*** returned no message: ConnectError" in first["error"]


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


def test_a_checkpoint_is_evaluated_with_the_settings_of_its_run(tmp_path: Path) -> None:
    run = parse_config(
        {
            "name": "r",
            "environments": [{"id": "turnwise/TextSite-v0"}],
            "rollout": {"temperature": 0.5, "step_timeout_s": 7, "turn_timeout_s": 8, "workers_per_node": 3},
            "horizon": {
                "name": "staged",
                "stages": [3, 5],
                "boundaries": [1],
                "max_tokens_per_turn": 4,
                "max_context": 256,
            },
            "engine": {"tensor_parallel_size": 1},
            "sandboxes": {"options": {"runtime": "runsc"}, "max_per_node": 5},
        }
    )
    model = new_model(tmp_path / "model", ["a"], hidden=32, layers=1, heads=1)
    loaded = AutoModelForCausalLM.from_pretrained(model)
    optimizer = torch.optim.AdamW(loaded.parameters())
    write = partial(save_state, model=loaded, optimizer=optimizer)
    saved = checkpoint.save(tmp_path / "checkpoints", 1, write, model, {"config": run.resolved()}, run_uid="u")
    settings = settings_of(str(saved), None, None)
    assert settings.horizon == Horizon(5, 4, 4096, 256)
    assert settings.timeouts == Timeouts(60, 7, 8, 600)
    assert (settings.rollout.temperature, settings.rollout.workers_per_node) == (0.5, 1)
    assert settings.engine.tensor_parallel_size == 0
    assert (settings.sandboxes.options, settings.sandboxes.max_per_node) == ({"runtime": "runsc"}, 5)
    other = settings_of(str(saved), 9, 2.0, {"max_per_node": 3})
    assert (other.sandboxes.options, other.sandboxes.max_per_node) == ({"runtime": "runsc"}, 3)
    assert (other.horizon, other.rollout.temperature) == (Horizon(9, 4, 4096, 256), 2.0)
    assert settings_of(str(model), None, None).horizon.max_tokens_per_turn == 256


def test_sandbox_settings_of_an_older_run_are_read() -> None:
    assert _with_options({"runtime": None, "warm": 1}) == {"warm": 1}
    assert _with_options({"runtime": "runsc", "warm": 1}) == {"options": {"runtime": "runsc"}, "warm": 1}
    assert _with_options({"options": {"runtime": "kata"}}) == {"options": {"runtime": "kata"}}
