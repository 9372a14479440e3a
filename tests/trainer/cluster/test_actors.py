"""The configuration selects the player of the rollout workers, as a value that Ray can pickle."""

import pickle

import pytest
from turnwise.agents.players.policy import PolicyPlayer
from turnwise.trainer.cluster.actors import episode_slots, fitting_workers, player_factory
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.sections import RolloutConfig


def test_thoughts_change_the_player() -> None:
    assert player_factory(RolloutConfig()) is PolicyPlayer
    factory = player_factory(RolloutConfig(max_thought_tokens=3, action_request="open page"))
    thinking = pickle.loads(pickle.dumps(factory))  # noqa: S301 - made here; Ray pickles it
    assert thinking.keywords == {"max_thought_tokens": 3, "request": "open page"}


def test_a_thought_leaves_a_token_for_the_action() -> None:
    raw = {"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], "horizon": {"max_tokens_per_turn": 8}}
    assert parse_config({**raw, "rollout": {"max_thought_tokens": 7}}).rollout.max_thought_tokens == 7
    with pytest.raises(ConfigError, match="leaves no token for the action"):
        parse_config({**raw, "rollout": {"max_thought_tokens": 8}})


@pytest.mark.parametrize(
    ("max_per_node", "memories_mib", "slots"),
    [
        (32, [100_000], 8),
        (32, [100_000, 100_000], 16),
        (32, [8 * 1024], 2),
        (32, [8 * 1024, 1024, 2 * 1024], 2),
        (32, [4 * 1024, 4 * 1024], 2),
        (2, [100_000], 1),
        (32, [512], 1),
    ],
)
def test_episodes_with_sandboxes_fit_into_the_nodes(max_per_node: int, memories_mib: list[int], slots: int) -> None:
    """Two workers share the nodes; a page takes 1,024 MiB, and an episode at most two sandboxes."""
    config = parse_config(
        {
            "name": "r",
            "environments": [{"id": "turnwise/TinyWeb-v0", "concurrency": 50}],
            "sandboxes": {"max_per_node": max_per_node},
        }
    )
    assert list(episode_slots(config, memories_mib, 2).values()) == [slots]


@pytest.mark.parametrize(("concurrent", "workers"), [(8, 4), (2, 1), (1, 1), (32, 16)])
def test_no_worker_is_started_for_which_no_sandbox_is_left(concurrent: int, workers: int) -> None:
    """Otherwise each holds one sandbox, and all wait for the one that grades."""
    config = parse_config(
        {
            "name": "r",
            "environments": [{"id": "turnwise/TinyWeb-v0", "concurrency": 50}],
            "sandboxes": {"max_per_node": concurrent},
        }
    )
    nodes = ["one"] * 16
    assert len(fitting_workers(config, [100_000], nodes)) == workers
    assert sum(episode_slots(config, [100_000], workers).values()) * workers <= max(1, concurrent // 2)


def test_workers_without_sandboxes_are_as_many_as_configured() -> None:
    config = parse_config({"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}]})
    assert fitting_workers(config, [], ["one", "two"]) == ["one", "two"]
