"""The warm-up trains on random valid actions without the oracle, on the oracle's, or on stored demonstrations."""

import re
import tomllib
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs import EnvironmentBroken, make
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import Png, PngSpace
from turnwise.envs.worlds.tiny.text import TextSiteEnv
from turnwise.records import Horizon
from turnwise.store.database import open_database
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.sections import EnvironmentConfig, LearnerConfig, SftWarmupConfig
from turnwise.trainer.evaluation.tasks import evaluate
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.sft import SftExample
from turnwise.trainer.warmup import sft
from turnwise.trainer.warmup.random_episodes import random_episodes
from turnwise.trainer.warmup.sft import (
    SANDBOXED_EPISODES,
    RemainingTime,
    episodes_to_play,
    next_token,
    policy_of,
    resampled,
    right_action,
    warm_up,
)
from turnwise.trainer.warmup.stored_episodes import stored_episodes

SITE = [EnvironmentConfig(id="turnwise/TextSite-v0")]
HORIZON = Horizon(8, 4, 64, 256)


class Pictures(TurnEnv):
    """Shows a picture of one color per turn, in which an image has four tokens."""

    observation_space = PngSpace(56, 56)

    def __init__(self) -> None:
        self.seen: list[Png] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        return self._look(), {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return self._look(), 0.0, False, False, {}

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0)]

    def _look(self) -> Obs:
        self.seen.append(Png.encode(np.full((56, 56, 3), 50 * len(self.seen), np.uint8)))
        return {"text": "task", "image": self.seen[-1]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = TextSiteEnv().vocabulary()
    return new_model(tmp_path_factory.mktemp("m") / "model", words, hidden=32, heads=2, max_context=256)


def test_the_next_token_distribution_is_that_of_whole_actions() -> None:
    actions = [([1, 2, 9], 1.0), ([1, 3, 9], 1.0), ([4, 9], 0.5)]
    assert next_token(actions, []) == {1: 0.8, 4: 0.2}
    assert next_token(actions, [1]) == {2: 0.5, 3: 0.5}
    assert next_token(actions, [4]) == {9: 1.0}


def test_the_warm_up_lowers_the_loss_and_never_calls_the_oracle(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(self: TextSiteEnv) -> str:
        raise AssertionError("the warm-up called the oracle")

    monkeypatch.setattr(TextSiteEnv, "oracle", called)
    learner = Learner(model, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    chat = load_renderer(model)
    first = warm_up(learner, chat, SITE, HORIZON, 8, SftWarmupConfig(steps=1), 0)
    monkeypatch.setattr(sft, "INTERVAL_S", -1.0)
    lines: list[str] = []
    last = warm_up(learner, chat, SITE, HORIZON, 8, SftWarmupConfig(steps=40), 0, report=lines.append)
    assert last < first - 1
    assert re.fullmatch(r"warm-up: 1 of 40 steps; about \d+ s remain", lines[0])
    assert lines[-1] == "warm-up: 40 of 40 steps; about 0 s remain"


def test_the_oracle_and_its_stored_episodes_teach_the_same_answers(model: Path, tmp_path: Path) -> None:
    """Of both, each action is certain; a model that learned them solves held-out tasks that random actions do not."""
    config = parse_config({"name": "r", "environments": [{"id": SITE[0].id}], "sft_warmup": {"source": "demos"}})
    url = f"sqlite:///{tmp_path}/store.db"
    evaluate("oracle", SITE[0].id, tasks=6, split="train", name="demos", store_url=url)
    renderer = load_renderer(model)
    stored = stored_episodes(open_database(url), "demos", config, model)
    play = policy_of(renderer, HORIZON, actions=right_action)
    played = islice(random_episodes(SITE, play, Random(0), 30.0), 6)
    ours = {tuple(one.ids): one.targets for (one,) in map(list, played)}
    assert len(stored) == 6
    for episode in [*stored, *([SftExample(list(ids), targets)] for ids, targets in ours.items())]:
        for one in episode:
            assert all(target in (None, {token: 1.0}) for token, target in zip(one.ids, one.targets, strict=True))
            assert sum(map(bool, one.targets)) > 0
    learner = Learner(model, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    settings = SftWarmupConfig(steps=20, batch_size=3)
    first = learner.fit([one for episode in stored for one in episode], 1e-9, 0.0)
    warm_up(learner, renderer, SITE, HORIZON, 8, settings, 0, stored=stored)
    assert learner.fit([one for episode in stored for one in episode], 1e-9, 0.0) < first / 2


def test_a_step_in_small_passes_is_the_step_of_the_whole_batch(model: Path) -> None:
    play = policy_of(load_renderer(model), HORIZON)
    batch = [one for episode in islice(random_episodes(SITE, play, Random(0), 30.0), 5) for one in episode]
    losses = []
    for most in (1, 1 << 20):
        learner = Learner(model, LearnerConfig(max_tokens_per_micro_batch=most), DecoupledPPO(), Recompute(), 1.0)
        losses.append([learner.fit(batch, 1e-3, 0.1) for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_episodes_are_from_the_training_split_with_valid_actions(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits, valid = set(), []
    reset, step = TextSiteEnv.reset, TextSiteEnv.step

    def watched_reset(self, *, seed=None, options=None):
        splits.add((options or {}).get("split"))
        return reset(self, seed=seed, options=options)

    def watched_step(self, action):
        result = step(self, action)
        valid.append(result[4]["action_valid"])
        return result

    monkeypatch.setattr(TextSiteEnv, "reset", watched_reset)
    monkeypatch.setattr(TextSiteEnv, "step", watched_step)
    play = policy_of(load_renderer(model), HORIZON)
    examples = list(islice(random_episodes(SITE, play, Random(0), 30.0), 10))
    assert splits == {"train"}
    assert all(valid)
    for (one,) in examples:
        assert len(one.ids) == len(one.targets)
        assert all(target[token] > 0 for token, target in zip(one.ids, one.targets, strict=True) if target)


def test_after_the_given_number_of_episodes_earlier_ones_are_sampled_again() -> None:
    examples = ([SftExample([number], [None])] for number in range(9))
    taken = [one.ids[0] for (one,) in islice(resampled(examples, 3, Random(0)), 40)]
    assert taken[:3] == [0, 1, 2]
    assert set(taken[3:]) == {0, 1, 2}
    assert list(examples) == []


def test_a_valid_action_outside_of_the_vocabulary_is_named(tmp_path: Path) -> None:
    site = make("turnwise/TextSite-v0", family="find")
    words = site.vocabulary()
    whole = policy_of(load_renderer(new_model(tmp_path / "whole", words)), HORIZON)
    assert whole(site, 0, Random(0), lambda: None)[0].ids
    part = policy_of(load_renderer(new_model(tmp_path / "part", [one for one in words if one != "click"])), HORIZON)
    with pytest.raises(EnvironmentBroken, match=r"no token for a word of the valid action 'click .*vocabulary\(\)"):
        part(site, 0, Random(0), lambda: None)


def test_the_default_number_of_episodes_follows_the_environments() -> None:
    assert episodes_to_play(SftWarmupConfig(), SITE) == 0
    sandboxed = [*SITE, EnvironmentConfig(id="turnwise/TinyCode-v0")]
    assert episodes_to_play(SftWarmupConfig(), sandboxed) == SANDBOXED_EPISODES
    assert episodes_to_play(SftWarmupConfig(episodes=0), sandboxed) == 0


@pytest.mark.parametrize(("example", "episodes"), [("tiny_code", 0), ("tiny_desktop", 150), ("tiny_web", 600)])
def test_an_example_states_the_episodes_that_its_figures_were_measured_with(example: str, episodes: int) -> None:
    text = (Path(__file__).resolve().parents[3] / "examples" / f"{example}.toml").read_text()
    assert tomllib.loads(text)["sft_warmup"]["episodes"] == episodes


def test_the_remaining_time_counts_the_episodes_that_are_left_to_play() -> None:
    left = RemainingTime(steps=10, playing_steps=4)
    for _ in range(2):
        left.add(play_s=3.0, fit_s=1.0)
    assert left.seconds() == 2 * 3.0 + 8 * 1.0
    for _ in range(4):
        left.add(play_s=0.0, fit_s=1.0)
    assert left.seconds() == 4.0


def test_an_example_holds_the_images_of_its_observations(tmp_path: Path) -> None:
    """Each image is at its tokens, and the loss on observations leaves them out."""
    folder = new_vision_model(tmp_path / "model", ["task", "go"], hidden=32, heads=1, layers=1, max_context=64)
    renderer = load_renderer(folder)
    env = Pictures()
    (example,) = policy_of(renderer, replace(HORIZON, max_turns=2))(env, 0, Random(0), lambda: None)
    assert [one.content for one in example.images] == env.seen[:2]
    placeholder = renderer.encoder.control_token("<|image_pad|>")
    inside = [one.offset + place for one in example.images for place in range(one.length)]
    assert [one.length for one in example.images] == [4, 4]
    assert inside == [place for place, token in enumerate(example.ids) if token == placeholder]
    assert len(example.ids) == len(example.targets)
    losses = []
    for weight in (0.0, 0.5):
        learner = Learner(folder, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
        losses.append(learner.fit([example], 1e-3, weight))
    assert 0 < losses[0] < losses[1]


def test_contexts_are_those_that_the_policy_will_see(tmp_path: Path) -> None:
    """With a window of two images, the third and the fourth turn begin the context again."""
    folder = new_vision_model(tmp_path / "model", ["task", "go"], hidden=32, heads=1, layers=1, max_context=64)
    renderer, env = load_renderer(folder), Pictures()
    contexts = policy_of(renderer, replace(HORIZON, max_turns=4), 2)(env, 0, Random(0), lambda: None)
    seen, conversation = [], Conversation(renderer, "", 2)
    for picture in env.seen[:4]:
        conversation.observe("task", [Image.of(picture)])
        turn = renderer.encode_completion("go")
        seen.append(([*conversation.prompt(), *turn], [span.offset for span in conversation.images()]))
        conversation.act(turn, [0.0] * len(turn), [0] * len(turn))
    assert [(one.ids, [image.offset for image in one.images]) for one in contexts] == seen[1:]
    order = {bytes(picture): number for number, picture in enumerate(env.seen)}
    shown = [[order[image.content] for image in one.images] for one in contexts]
    assert shown == [[0, 1], [1, 2], [2, 3]]
    learned = [sum(bool(target) for target in one.targets) for one in contexts]
    assert learned == [2 * len(turn), len(turn), len(turn)]
    assert [None in one.targets for one in contexts] == [True, False, False]
    learner = Learner(folder, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    assert learner.fit(contexts, 1e-3, 0.1) > 0
