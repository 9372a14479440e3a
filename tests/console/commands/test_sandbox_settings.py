"""``--sandbox KEY=VALUE`` sets the sandboxes of a command that plays episodes in its own process."""

import pytest
from turnwise.sandbox import set_provider

from ..conftest import ENV, Turnwise


@pytest.mark.parametrize(
    "command",
    [
        ("envs", "check", ENV),
        ("eval", "--env", ENV),
        ("trajectories", "replay", "id"),
        ("trajectories", "branch", "id", "--at", "1"),
    ],
)
def test_sandbox_settings_of_a_command_are_checked(turnwise: Turnwise, command: tuple[str, ...]) -> None:
    wrong = turnwise(*command, "--sandbox", "per_node=3")
    assert wrong.code != 0
    assert "sandbox setting `per_node`: there is no such setting (did you mean 'max_per_node'?)" in wrong.err
    assert "max_per_node, memory_per_node_mib" in wrong.err


def test_a_wrong_backend_and_a_wrong_option_are_reported_in_words(turnwise: Turnwise) -> None:
    for values, reason in (
        (("backend=dokcer",), "sandbox settings: no sandbox backend is called `dokcer` (did you mean 'docker'?)"),
        (("backend=docker", "options.runtim=runsc"), "option `runtim` of the sandbox backend `docker`: unknown key"),
        (("options=3",), "sandbox setting `options`: must be a table"),
    ):
        wrong = turnwise("envs", "check", ENV, *(part for value in values for part in ("--sandbox", value)))
        assert wrong.code != 0
        assert reason in " ".join(wrong.err.split())


def test_sandbox_settings_reach_the_pool_of_a_command(turnwise: Turnwise) -> None:
    try:
        small = ("--sandbox", "backend=local", "--sandbox", "memory_per_node_mib=64")
        played = turnwise("envs", "play", "turnwise/TinyCode-v0", *small)
        assert played.code == 2
        assert "96 MiB does not fit into the 64 MiB" in played.err
    finally:
        set_provider(None)
