"""``turnwise sandbox`` on this machine, and on one without an engine."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import docker
import pytest
from turnwise.sandbox.backends.ownership import EXPIRES, HOST, PID, RUN, describe, labels
from turnwise.tests.console.forked_commands import Ended, ForkedCommands

pytestmark = pytest.mark.docker

Sandbox = Callable[..., Ended]


@pytest.fixture
def sandbox(forked_commands: ForkedCommands, tmp_path: Path) -> Sandbox:
    """Return a function that runs ``turnwise sandbox``."""

    def run(*arguments: str, **environment: str) -> Ended:
        return forked_commands.run(tmp_path, "sandbox", *arguments, environment=environment)

    return run


def test_list_and_reap_distinguish_dead_from_live_owners(sandbox: Sandbox) -> None:
    client = docker.APIClient(**docker.utils.kwargs_from_env())
    alive = f"turnwise-console-alive-{time.monotonic_ns()}"
    written = labels("a run", 600.0)
    client.create_container("turnwise/code:latest", command=["true"], name=alive, labels=written)
    try:
        rows: dict[str, dict[str, str]] = {}
        dead = ""
        # Another pool on this machine may reap a dead container before it is listed.
        for _ in range(20):
            dead = f"turnwise-console-dead-{time.monotonic_ns()}"
            changed = {**written, PID: "4194305"}
            client.create_container("turnwise/code:latest", command=["true"], name=dead, labels=changed)
            rows = {row["id"]: row for row in json.loads(sandbox("list", "--json").out)}
            if dead in rows:
                break
        assert rows[dead]["reap_reason"] == "its owner, process 4194305, is dead"
        assert (rows[alive]["run"], rows[alive]["owner"], rows[alive]["reap_reason"]) == (
            "a run",
            f"process {os.getpid()}",
            "",
        )
        assert alive in sandbox("list").out
        planned = json.loads(sandbox("reap", "--dry-run", "--json").out)
        assert planned["removed"] == []
        removed = json.loads(sandbox("reap", "--json").out)["removed"]
        assert alive not in {*planned["dead"], *removed}
        there = {name for one in client.containers(all=True) for name in one["Names"]}
        assert f"/{alive}" in there
        assert f"/{dead}" not in there
    finally:
        client.remove_container(alive, force=True)
        client.close()


def test_the_list_of_backends_names_every_dependency_and_its_remedy(sandbox: Sandbox) -> None:
    done = sandbox("backends", "--json")
    parts = {(part["backend"], part["name"]): part for part in json.loads(done.out)}
    assert done.code == 0
    assert all(parts["docker", name]["found"] for name in ("SDK", "engine", "runtimes", "image code"))
    assert all(parts["local", name]["found"] for name in ("bubblewrap", "namespaces", "python3"))
    assert all(part["detail"] for part in parts.values())


def test_an_image_that_is_up_to_date_is_not_built_again(sandbox: Sandbox) -> None:
    done = sandbox("build", "code", "--json")
    assert done.code == 0
    assert json.loads(done.out)["code"].startswith("sha256:")
    assert "is up to date" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--backend", "podman"], "no sandbox backend is called `podman` (known: docker, local)"),
        (["check", "--option", "runtimes=runsc"], "option `runtimes` of the sandbox backend `docker`"),
        (
            ["check", "--backend", "local", "--option", "runtime=runsc"],
            "option `runtime` of the sandbox backend `local`",
        ),
        (["build", "--backend", "local"], "the local backend has no images"),
    ],
)
def test_a_wrong_name_is_reported_and_exits_2(sandbox: Sandbox, arguments: list[str], message: str) -> None:
    done = sandbox(*arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""


@pytest.mark.parametrize("command", ["list", "reap", "check", "build"])
def test_without_an_engine_one_line_names_the_remedy(sandbox: Sandbox, command: str) -> None:
    done = sandbox(command, DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.code == 2
    assert done.err.startswith("turnwise: no Docker engine answers")
    assert "install docker.io and start dockerd" in done.err
    assert done.err.count("\n") == 1


def test_without_an_engine_the_list_of_backends_names_the_remaining_features(sandbox: Sandbox) -> None:
    done = sandbox("backends", "--json", DOCKER_HOST="unix:///nowhere/docker.sock")
    parts = {(part["backend"], part["name"]): part for part in json.loads(done.out)}
    assert done.code == 0
    assert not parts["docker", "engine"]["found"]
    assert "start dockerd" in parts["docker", "engine"]["detail"]


@pytest.mark.parametrize("spoilt", [{EXPIRES: "soon"}, {EXPIRES: "1e30"}, {HOST: "elsewhere"}])
def test_odd_labels_are_shown_as_far_as_they_go(spoilt: dict[str, str]) -> None:
    row = describe("x", "running", "code", {**labels("r", 60.0), **spoilt}, "")
    assert row.run == "r"
    assert bool(row.expires) == (EXPIRES not in spoilt)
    assert row.owner.endswith("elsewhere") == (HOST in spoilt)
    bare = describe("x", "running", "code", {MARK_ONLY: "1"}, "")
    assert (bare.run, bare.owner, bare.expires) == ("", "", "")


MARK_ONLY = RUN + ".other"
