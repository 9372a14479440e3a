"""A vocabulary without a word of an action is refused."""

from pathlib import Path
from random import Random

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs import EnvironmentBroken, make
from turnwise.trainer.warmup.sft import random_policy


def test_a_valid_action_outside_of_the_vocabulary_is_named(tmp_path: Path) -> None:
    site = make("turnwise/TextSite-v0", family="find")
    words = site.vocabulary()
    whole = random_policy(load_renderer(new_model(tmp_path / "whole", words)), max_turns=3)
    assert whole(site, 0, Random(0), lambda: None).ids
    part = random_policy(
        load_renderer(new_model(tmp_path / "part", [one for one in words if one != "click"])), max_turns=3
    )
    with pytest.raises(EnvironmentBroken, match=r"no token for a word of the valid action 'click .*vocabulary\(\)"):
        part(site, 0, Random(0), lambda: None)
