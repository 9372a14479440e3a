"""Ray loses calls to actors and their answers: a run gets slower, and no effect of a call is missing or there twice."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text
from turnwise.tests.chaos.harness import Launch, check_finished, reading, updates

UPDATES = 8
PERCENT = 4
"""Chance of each of three losses per call: of the request, of its answer, and of the answer to a running request."""
LOSSES_PER_PROCESS = 12
"""An engine is polled many times per second, and a lost poll fails its open requests: without a bound, none ends."""
LAUNCHES = 8
"""Processes that may drive the run: an engine that is lost too often, for example, ends one."""
TIMEOUT_S = 300.0
LOSSES = {
    "CoreWorkerService.grpc_client.PushTask": {
        "num_failures": LOSSES_PER_PROCESS,
        "req_failure_prob": PERCENT,
        "resp_failure_prob": PERCENT,
        "in_flight_failure_prob": PERCENT,
    }
}


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_lost_calls_to_actors_change_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_testing_rpc_failure", json.dumps(LOSSES))
    # A lost request of the policy is noticed by its timeout.
    slow = ["rollout.turn_timeout_s=10", f"max_steps={UPDATES}", "checkpoint.interval=1", "evaluation.tasks=0"]
    reached = []
    for _ in range(LAUNCHES):
        launch = Launch.of(tmp_path, *slow)
        code = launch.wait(TIMEOUT_S)
        reached.append(updates(tmp_path))
        if code == 0:
            break
        assert code == 1, launch.log()
    assert code == 0, f"{reached}: {launch.log()}"
    check_finished(tmp_path, updates_wanted=UPDATES)
    with reading(tmp_path) as conn:
        lost = conn.execute(text("SELECT count(*) FROM trajectory WHERE error LIKE '%ActorUnavailableError%'"))
        assert lost.scalar_one() > 0, "no call was lost"
