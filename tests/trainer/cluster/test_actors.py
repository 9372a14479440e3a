"""The configuration selects the player of the rollout workers, as a value that Ray can pickle."""

import pickle

import pytest
from turnwise.agents.players.policy import policy_player
from turnwise.trainer.cluster.actors import player_factory
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.sections import RolloutConfig


def test_thoughts_change_the_player() -> None:
    assert player_factory(RolloutConfig()) is policy_player
    factory = player_factory(RolloutConfig(max_thought_tokens=3, action_request="open page"))
    thinking = pickle.loads(pickle.dumps(factory))  # noqa: S301 - made here; Ray pickles it
    assert thinking.keywords == {"max_thought_tokens": 3, "request": "open page"}


def test_a_thought_leaves_a_token_for_the_action() -> None:
    raw = {"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], "horizon": {"max_tokens_per_turn": 8}}
    assert parse_config({**raw, "rollout": {"max_thought_tokens": 7}}).rollout.max_thought_tokens == 7
    with pytest.raises(ConfigError, match="leaves no token for the action"):
        parse_config({**raw, "rollout": {"max_thought_tokens": 8}})
