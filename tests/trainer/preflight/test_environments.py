"""An environment that a policy cannot read or play is refused before any work is done."""

import re
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs import make
from turnwise.envs.base import Info, Obs
from turnwise.envs.worlds.tiny.text import TextSiteEnv
from turnwise.errors import TurnwiseError
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.agents.worlds import CLOCK, PICTURE
from turnwise.tests.envs.faulty import FAULTY
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import HELD_OUT_SEED, EnvironmentConfig, ModelConfig, SftWarmupConfig
from turnwise.trainer.evaluation.tasks import evaluate
from turnwise.trainer.preflight import environments as checks
from turnwise.trainer.preflight.refusal import Command, Refused, Subject, refuse
from turnwise.trainer.run.run import train
from turnwise.trainer.warmup.vocabulary import closed_vocabulary

from .refusing import call

RESET_S = 10.0
TEXT_SITE = "turnwise/TextSite-v0"
SERVER = "http://127.0.0.1:9/v1"
INSTRUCTING = "sight/Instructing-v0"
LISTED = "sight/Listed-v0"


class Instructing(TextSiteEnv):
    """The text site with instructions."""

    def __init__(self, instructions: str) -> None:
        super().__init__()
        self._instructions = instructions

    def instructions(self) -> str:
        return self._instructions


class Listed(Instructing):
    """Has two tasks per split, and no other seed."""

    def tasks(self, split: str) -> list[int]:
        return [7, 8]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        if seed not in self.tasks("train"):
            raise LookupError(f"no task has the seed {seed}")
        return super().reset(seed=seed, options=options)


gymnasium.register(INSTRUCTING, entry_point=Instructing)  # type: ignore[arg-type]
gymnasium.register(LISTED, entry_point=Listed)  # type: ignore[arg-type]


def environments(*ids: str, **options: str) -> list[EnvironmentConfig]:
    return [EnvironmentConfig(id=one, options=options) for one in ids]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    words = closed_vocabulary(environments(TEXT_SITE))
    return load_renderer(new_model(tmp_path_factory.mktemp("model"), words, hidden=16, layers=1, heads=2))


def configured(chosen: list[EnvironmentConfig], max_context: int = 64, max_tokens_per_turn: int = 8) -> RunConfig:
    horizon = {"max_context": max_context, "max_tokens_per_turn": max_tokens_per_turn}
    return RunConfig(name="r", environments=chosen, horizon=horizon, rollout={"reset_timeout_s": RESET_S})


def look(
    chosen: list[EnvironmentConfig], chat: Renderer, command: Command = Command.TRAIN, max_context: int = 64
) -> None:
    """Check the first observations for a policy that reads tokens."""
    refuse(list(checks._unread(Subject(configured(chosen, max_context), command), chosen, chat)))


def play(chosen: list[EnvironmentConfig], policy: str) -> None:
    """Check the environments for a policy without tokens."""
    call(checks.unplayable_environments, configured(chosen), Command.EVAL, policy=policy)


def test_an_environment_with_images_among_others_is_named(chat: Renderer) -> None:
    with pytest.raises(Refused, match="loop/Picture-v0: the observation contains 1 image, and this policy reads text"):
        look(environments(CLOCK, PICTURE), chat)


def test_text_is_accepted_and_a_broken_environment_fails_only_in_its_episodes(chat: Renderer) -> None:
    look(environments(TEXT_SITE), chat, Command.EVAL)
    look(environments(FAULTY, fault="raise", where="reset"), chat, Command.EVAL)
    look(environments(FAULTY, fault="raise", where="make"), chat, Command.EVAL)


@pytest.mark.parametrize("policy", [SERVER, "random", "oracle"])
def test_an_environment_whose_reset_fails_is_left_to_its_episodes(policy: str) -> None:
    play(environments(FAULTY, fault="raise", where="reset"), policy)


def test_images_are_refused_from_the_observation_space(tmp_path: Path) -> None:
    both = environments("turnwise/MiniWoB-click-test-v0", observation="both")
    for command, policy in ((Command.TRAIN, ""), (Command.FORK, ""), (Command.EVAL, ""), (Command.EVAL, SERVER)):
        config = configured([*both, *environments(TEXT_SITE)])
        config = config.model_copy(update={"model": ModelConfig(path=str(tmp_path))})
        with pytest.raises(Refused, match="click-test-v0: the observation contains 1 image, and this policy reads"):
            call(checks.images_in_space, config, command, policy=policy)
    call(checks.images_in_space, configured(both), Command.TRAIN)  # a new model reads images
    call(checks.images_in_space, configured(both), Command.EVAL, policy="random")
    call(checks.images_in_space, configured(environments("turnwise/MiniWoB-click-test-v0")), Command.TRAIN)


def test_images_are_played_with_a_model_that_reads_them(tmp_path: Path) -> None:
    model = new_vision_model(tmp_path / "model", ["page", "click"], hidden=32, layers=1)
    screens = environments("turnwise/MiniWoB-click-test-v0", observation="screenshot")
    call(checks.images_in_space, configured(screens), Command.EVAL, model=model)
    look(environments(PICTURE), load_renderer(model), Command.EVAL)


def test_settings_of_images_without_images_are_refused() -> None:
    settings: dict[str, Any] = {"horizon": {"max_images": 4}, "model": {"new": {"patch_size": 28}}}
    for one in (TEXT_SITE, PICTURE):
        call(checks.unused_settings_of_images, RunConfig(name="r", environments=environments(one)))
    call(checks.unused_settings_of_images, RunConfig(name="r", environments=environments(PICTURE), **settings))
    with pytest.raises(Refused) as caught:
        call(checks.unused_settings_of_images, RunConfig(name="r", environments=environments(TEXT_SITE), **settings))
    assert [one.key for one in caught.value.refusals] == ["horizon.max_images", "model.new.patch_size"]
    assert "`horizon.max_images` concerns images, and no environment of this run shows one: remove" in str(caught.value)


def test_an_option_that_the_environment_does_not_take_is_refused_once() -> None:
    for options, reason in (({"famly": "open"}, "has no option 'famly'"), ({"pool_size": "many"}, "type is `int`")):
        chosen = environments(TEXT_SITE, **options)
        assert checks.known(chosen) == []
        with pytest.raises(Refused, match=reason):
            call(checks.unfit_options, configured(chosen), Command.TRAIN)


def test_a_server_is_refused_for_images_only() -> None:
    play(environments(CLOCK), SERVER)
    with pytest.raises(Refused, match="loop/Picture-v0: the observation contains 1 image"):
        play(environments(CLOCK, PICTURE), SERVER)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("random", "Clock does not list its valid actions"), ("oracle", "Clock has no oracle")],
)
def test_a_policy_whose_method_an_environment_lacks_cannot_play(policy: str, reason: str) -> None:
    with pytest.raises(Refused, match=f"^--policy {policy} cannot play {re.escape(CLOCK)}: {reason}"):
        play(environments(TEXT_SITE, CLOCK), policy)


@pytest.mark.parametrize(
    ("source", "method", "reason"),
    [
        (None, "valid_actions", "Clock does not list its valid actions"),
        ("oracle", "oracle", "Clock has no oracle"),
    ],
)
def test_a_warmup_is_refused_without_the_method_that_lists_its_actions(
    source: str | None, method: str, reason: str
) -> None:
    config = RunConfig(name="r", environments=environments(TEXT_SITE, CLOCK), sft_warmup=SftWarmupConfig(source=source))
    with pytest.raises(Refused, match=rf"the warm-up learns from `{method}\(\)`, and {reason}.*define `{method}\(\)`"):
        call(checks.lacking_actions, config, Command.TRAIN)
    call(checks.lacking_actions, config.model_copy(update={"sft_warmup": SftWarmupConfig(steps=0)}), Command.TRAIN)


@pytest.mark.parametrize("prefix", ["", "open the"])
def test_a_first_observation_that_does_not_fit_the_context_is_named(chat: Renderer, prefix: str) -> None:
    """``prefix`` stands for the instructions of an environment."""
    conversation = Conversation(chat, prefix)
    env = make(TEXT_SITE)
    conversation.observe(str(env.reset(seed=HELD_OUT_SEED, options={"split": "train"})[0]))
    size = len(conversation.prompt())
    ids = environments(INSTRUCTING, instructions=prefix)
    look(ids, chat, max_context=size + 1)
    expected = rf"the first observation has {size} tokens, `horizon.max_context` is {size} .*raise `horizon"
    with pytest.raises(TurnwiseError, match=expected):
        look(ids, chat, max_context=size)


@pytest.mark.parametrize("command", [Command.TRAIN, Command.EVAL])
def test_an_environment_that_lists_its_tasks_is_reset_with_one_of_them(chat: Renderer, command: Command) -> None:
    ids = environments(LISTED, instructions="open")
    look(ids, chat, command)
    with pytest.raises(Refused, match=r"the first observation has \d+ tokens"):
        look(ids, chat, command, max_context=2)


def test_an_evaluation_of_a_server_stores_nothing(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/turnwise.db"
    with pytest.raises(Refused, match="loop/Picture-v0: the observation contains 1 image"):
        evaluate(SERVER, PICTURE, tasks=2, store_url=store)
    database = open_database(store)
    with database.read() as conn:
        assert queries.list_runs(conn) == []
    database.close()


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a model that reads text."""
    return str(new_model(tmp_path_factory.mktemp("text") / "model", ["page", "click"], hidden=32, heads=1, layers=1))


def test_a_run_with_images_is_refused_before_it_exists(tmp_path: Path, text_model: str) -> None:
    store = f"sqlite:///{tmp_path}/turnwise.db"
    config = parse_config(
        {
            "name": "blind",
            "model": {"path": text_model},
            "environments": [{"id": PICTURE}],
            "evaluation": {"tasks": 2},
        }
    )
    notes: list[object] = []
    with pytest.raises(Refused, match="loop/Picture-v0: the observation contains 1 image"):
        train(config, store_url=store, report=notes.append)
    assert notes == list(tmp_path.iterdir()) == []


NARROW = r"Instructing-v0: the first observation has \d+ tokens, `horizon.max_context` is 16 "
LONG = {"instructions": "open the " * 20}


def test_a_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    limits = {"max_turns": 3, "max_tokens_per_turn": 4, "max_context": 16}
    environment = {"id": INSTRUCTING, "options": LONG}
    config = parse_config({"name": "blind", "environments": [environment], "horizon": limits})
    with pytest.raises(Refused, match=NARROW):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db", report=lambda event: pytest.fail(str(event)))
    assert not (tmp_path / "turnwise.db").exists()


@pytest.mark.soak
def test_an_evaluation_of_a_model_names_it_too(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/turnwise.db"
    model = new_model(tmp_path / "model", closed_vocabulary(environments(TEXT_SITE)), max_context=16)
    with pytest.raises(TurnwiseError, match=NARROW):
        evaluate(str(model), INSTRUCTING, options=LONG, tasks=2, store_url=store)
    assert trajectories(store) == []


def trajectories(store: str) -> list[Any]:
    """Return the trajectories of a store."""
    database = open_database(store)
    try:
        with database.read() as conn:
            return list(queries.list_trajectories(conn))
    finally:
        database.close()
