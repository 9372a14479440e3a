"""The configuration schema: the digest that identifies a run, its length, and its sections."""

import re
from dataclasses import astuple
from typing import Any

import pytest
from turnwise.agents.engine.config import PASSED_THROUGH
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.trainer.algorithms.algorithm_set import SLOTS
from turnwise.trainer.config.errors import ConfigError, fields_at
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import MATHEMATICS, RunConfig
from turnwise.trainer.config.sections import LearnerConfig, ModelConfig, RolloutConfig

MINIMAL = {"name": "t", "environments": [{"id": "turnwise/TextSite-v0"}]}

OPERATIONAL = {
    "name": None,
    "preset": None,
    "max_steps": None,
    "max_seconds": None,
    "store_timeout_s": None,
    "evaluation": None,
    "checkpoint": None,
    "retention": None,
    "sandboxes": None,
    "ray_address": None,
    "trackers": None,
    "environments": {"concurrency"},
    "rollout": {
        "max_concurrent_groups",
        "workers_per_node",
        "num_engines",
        "reset_timeout_s",
        "screenshots",
        "scoring_timeout_s",
        "step_timeout_s",
        "turn_timeout_s",
        "group_timeout_s",
    },
    "learner": {
        "learning_rate",
        "min_learning_rate",
        "lr_schedule",
        "lr_warmup_steps",
        "backend",
        "num_ranks",
        "activation_checkpointing",
        "optimizer_offload",
        "max_tokens_per_micro_batch",
        "num_threads",
        "device",
        "weight_transport",
    },
    "engine": {
        "max_num_seqs",
        "max_num_batched_tokens",
        "kv_cache_memory_bytes",
        "block_size",
        "num_threads",
        "start_timeout_s",
        "tensor_parallel_size",
    },
}
"""Keys that may change when a run resumes; None for a whole section. Arguments of vLLM in ``[engine]``
may change too."""


def test_every_key_is_either_mathematical_or_operational() -> None:
    whole = {name for name, keys in (MATHEMATICS | OPERATIONAL).items() if keys in (True, None)}
    parted = MATHEMATICS.keys() & OPERATIONAL.keys()
    assert whole | parted | {base.slot for base in SLOTS} == set(RunConfig.model_fields)
    for section in parted:
        keys: Any = MATHEMATICS[section]
        own: Any = OPERATIONAL[section]
        keys = keys.get("__all__") if isinstance(keys, dict) else keys
        assert not keys & own
        assert keys | own == set(fields_at(RunConfig, (section,))) - PASSED_THROUGH, section


JUDGE = {"name": "llm_judge", "url": "http://a/v1", "model": "m", "rubric": "r"}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"trackers": ["tensorboard"]},
        {"ray_address": "auto"},
        {"max_steps": 1000, "max_seconds": 5},
        {"evaluation": {"tasks": 3}},
        {"checkpoint": {"keep_last": 9}},
        {"retention": {"keep_versions": 9, "max_size": "1GiB"}},
        {"rollout": {"workers_per_node": 3, "group_timeout_s": 9}},
        {"engine": {"kv_cache_memory_bytes": 999}},
        {"environments": [{"id": "turnwise/TextSite-v0", "concurrency": 3}]},
        {"learner": {"num_threads": 3}},
        {"learner": {"learning_rate": 0.5, "min_learning_rate": 0.1, "lr_schedule": "linear", "lr_warmup_steps": 3}},
        {"rewards": [JUDGE | {"url": "http://b/v1", "max_concurrent_requests": 3}]},
        {"horizon": {"name": "constant", "max_turns": 12}},
        {"group_filters": [{"name": "zero_variance"}]},
    ],
)
def test_operational_changes_keep_the_digest(changes: dict[str, Any]) -> None:
    base = MINIMAL | {"rewards": [JUDGE]}
    assert parse_config(base | changes).digest() == parse_config(base).digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"model": {"new": {"hidden": 256}}},
        {"environments": [{"id": "turnwise/TextSite-v0", "options": {"family": "find"}}]},
        {"rollout": {"max_staleness": 0}},
        {"rollout": {"group_size": 4}},
        {"learner": {"weight_decay": 0.5}},
        {"learner": {"num_epochs": 2}},
        {"learner": {"lora": {}}},
        {"model": {"reference": "folder"}},
        {"loss": {"reference_kl_coef": 0.01}},
        {"engine": {"dtype": "bfloat16"}},
        {"sft_warmup": {"steps": 1}},
        {"horizon": {"max_turns": 13}},
        {"advantage": {"name": "turn_return"}},
        {"group_filters": []},
        {"rewards": []},
        {"rewards": [JUDGE | {"rubric": "other"}]},
        {"preset": "grpo"},
    ],
)
def test_mathematical_changes_change_the_digest(changes: dict[str, Any]) -> None:
    base = MINIMAL | {"rewards": [JUDGE]}
    assert parse_config(base | changes).digest() != parse_config(base).digest()


def test_a_release_that_adds_keys_with_defaults_resumes_older_runs() -> None:
    class LaterLearner(LearnerConfig):
        momentum: float = 0.5

    class Later(RunConfig):
        learner: LaterLearner = LaterLearner()
        tracker: str = "none"

    raw = MINIMAL | {"learner": {"weight_decay": 0.5}}
    assert Later.model_validate(raw).digest() == parse_config(raw).digest()


@pytest.mark.parametrize(
    ("limits", "update", "seconds", "progress", "lr_progress"),
    [
        ({}, 50, 9.0, 0.5, 0.5),
        ({"max_steps": 10}, 5, 1e9, 0.5, 0.5),
        ({"max_seconds": 100}, 10_000, 25.0, 0.25, 0.25),
        ({"max_steps": 10, "max_seconds": 100}, 2, 90.0, 0.9, 0.2),
        ({"max_steps": 10, "max_seconds": 100}, 2, 200.0, 1.0, 0.2),
    ],
)
def test_the_learning_rate_does_not_depend_on_the_clock_if_max_steps_is_given(
    limits: dict[str, Any], update: int, seconds: float, progress: float, lr_progress: float
) -> None:
    config = parse_config(MINIMAL | limits)
    assert config.progress(update, seconds) == pytest.approx(progress)
    assert config.lr_progress(update, seconds) == pytest.approx(lr_progress)


def test_every_rollout_timeout_reaches_the_record() -> None:
    assert RolloutConfig().timeouts == Timeouts()
    given = RolloutConfig(reset_timeout_s=1, step_timeout_s=2, turn_timeout_s=3, group_timeout_s=4, scoring_timeout_s=5)
    assert given.timeouts == Timeouts(1, 2, 3, 4, 5)


def test_two_configurations_share_no_component() -> None:
    first, second = parse_config(MINIMAL), parse_config(MINIMAL)
    assert first.loss is not second.loss
    assert first.group_filters[0] is not second.group_filters[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": {"num_ranks": 2}}, 'the backend `local` has one: set `learner.backend = "fsdp"`'),
        (
            {"learner": {"backend": "fsdp"}, "proximal": {"name": "ewma"}},
            "`proximal` `ewma` scores with separate weights",
        ),
        (
            {"learner": {"backend": "fsdp"}, "advantage": {"name": "prime"}},
            "`advantage` `prime` trains a separate model",
        ),
        (
            {"learner": {"lora": {}}, "advantage": {"name": "prime"}},
            "`advantage` `prime` trains all weights of a separate model, which `learner.lora` keeps frozen",
        ),
        (
            {"learner": {"lora": {}}, "engine": {"tensor_parallel_size": 1}},
            "on a GPU in half precision only: set `engine.dtype` to `bfloat16`",
        ),
        ({"learner": {"weight_transport": "ipc"}}, "needs one engine on the GPU of the learner"),
        (
            {
                "learner": {"weight_transport": "ipc", "device": "cuda"},
                "engine": {"tensor_parallel_size": 1},
                "rollout": {"num_engines": 2},
            },
            "`rollout.num_engines` to 1",
        ),
    ],
    ids=str,
)
def test_a_learner_that_cannot_train_the_method_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_config(MINIMAL | changes)


def test_ipc_suits_one_engine_on_the_gpu_of_the_learner() -> None:
    learner = {"weight_transport": "ipc", "device": "cuda"}
    config = parse_config(MINIMAL | {"learner": learner, "engine": {"tensor_parallel_size": 1}})
    assert config.learner.weight_transport == "ipc"


def test_the_learning_rate_suits_random_or_trained_weights_and_can_be_chosen() -> None:
    own = {"learner": {"learning_rate": 3e-4}}
    for path, rate in ((None, 1e-3), ("org/model", 1e-6)):
        model = MINIMAL | {"model": {"path": path}}
        assert parse_config(model).learner.learning_rate == rate
        assert parse_config(model | own).learner.learning_rate == 3e-4
        made = RunConfig(**MINIMAL, model=ModelConfig(path=path), learner=LearnerConfig(num_threads=2))
        assert (made.learner.num_threads, made.learner.learning_rate) == (2, rate)
        assert (made.horizon.longest().max_context == 4096) is bool(path)


@pytest.mark.parametrize("section", ["learner", "engine", "evaluation", "horizon", "sft_warmup", "model"])
@pytest.mark.parametrize("value", [False, "", [], 3])
def test_a_section_that_is_no_table_is_named(section: str, value: Any) -> None:
    for model in ({}, {"model": {"path": "org/model"}}, {"offline": {"run": "x"}}):
        with pytest.raises(ConfigError, match=f"`{section}`"):
            parse_config(MINIMAL | model | {section: value})


@pytest.mark.parametrize("name", ["", [], False, 0])
def test_a_name_that_names_no_component_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"`loss\.name`"):
        parse_config(MINIMAL | {"preset": "gspo", "loss": {"name": name}})


def test_the_limits_of_a_model_with_a_path_are_those_of_sentences() -> None:
    raw: dict[str, Any] = {"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}]}
    new, language = (parse_config({**raw, "model": {"path": path}}) for path in (None, "org/model"))
    assert astuple(new.horizon.longest()) == (12, 32, 4096, 1024)
    assert astuple(language.horizon.longest()) == (12, 512, 8192, 4096)
    assert (new.engine.kv_cache_memory_bytes, language.engine.kv_cache_memory_bytes) == (256 << 20, 1 << 30)
    assert parse_config(language.resolved()) == language
    own = parse_config({**raw, "model": {"path": "org/model"}, "horizon": {"name": "staged", "max_context": 512}})
    assert astuple(own.horizon.longest()) == (30, 512, 8192, 512)
    tiny = parse_config({**raw, "preset": "tiny", "model": {"path": "org/model"}})
    assert astuple(tiny.horizon.longest()) == (12, 4, 8192, 4096)
