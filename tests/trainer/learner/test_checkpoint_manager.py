"""The checkpoints that are kept: the newest, and the first, which re-training starts from."""

from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.model_folder import tokenizer_files
from turnwise.agents.tiny_model import new_model
from turnwise.store import queries
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.trainer.playing import run_context
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.context import RunContext
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.checkpoint import CheckpointManager

PENALTY = {"loss": {"reference_kl_coef": 0.1}}
ONE = {"checkpoint": {"keep_last": 1, "keep_first": False}}


def manager_of(stage: Stage, config: RunConfig, model: Path, uid: str) -> tuple[RunContext, CheckpointManager]:
    """Return the context of a run, with the tokenizer of ``model``, and the manager of its checkpoints."""
    context = run_context(stage, config, Streams(0))
    (context.folder / "tokenizer").mkdir(parents=True)
    for file in tokenizer_files(model):
        (context.folder / "tokenizer" / file.name).write_bytes(file.read_bytes())
    learner = Learner(model, config.learner, config.loss, config.proximal, 1.0)
    return context, CheckpointManager(context, learner, uid, model, dict)


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ({}, ["0", "3"]),
        (ONE, ["3"]),
        (PENALTY | ONE, ["0", "3"]),
        (PENALTY | ONE | {"model": {"reference": "elsewhere"}}, ["3"]),
    ],
    ids=["the default", "not the first", "it is the reference", "another reference"],
)
def test_the_first_checkpoint_is_kept_for_re_training_and_as_the_reference_policy(
    tmp_path: Path, chosen: dict[str, Any], kept: list[str]
) -> None:
    model = new_model(tmp_path / "model", ["a", "b"], hidden=16, heads=2)
    given = {"name": "r", "environments": [{"id": "e"}], "checkpoint": {"keep_last": 1}} | chosen
    config = parse_config(given)

    async def scenario(stage: Stage) -> list[str]:
        store = await stage.begin()
        context, manager = manager_of(stage, config, model, await store.uid())
        for update in range(4):
            await manager.save(await store.add_version(update, None))
        return sorted(one.name for one in (context.folder / "checkpoints").iterdir())

    assert on_stage(tmp_path, scenario) == kept


def test_the_best_checkpoint_by_held_out_success_is_kept_and_named(tmp_path: Path) -> None:
    model = new_model(tmp_path / "model", ["a", "b"], hidden=16, heads=2)
    config = parse_config({"name": "r", "environments": [{"id": "e"}], **ONE})

    async def scenario(stage: Stage) -> tuple[list[str], queries.BestCheckpoint | None]:
        store = await stage.begin()
        context, manager = manager_of(stage, config, model, await store.uid())
        greedy = {"success": 0.95, "temperature": 0.0}
        for update, success in enumerate((0.1, 0.9, 0.9, None)):
            version = await store.add_version(update, None)
            row = {"success": success, "low": 0.0, "high": 1.0, "temperature": 1.0, "samples": 1, "version": version}
            await store.add_metrics(f"evaluation update {update}", update, row | (greedy if not update else {}))
            await manager.save(version)
        return sorted(one.name for one in (context.folder / "checkpoints").iterdir()), await store.read(
            queries.best_checkpoint
        )

    kept, best = on_stage(tmp_path, scenario)
    assert kept == ["1", "3"], "the greedy evaluation of update 0 is not compared with the later ones"
    assert best is not None
    assert (best.evaluation, best.success, best.update, best.version) == ("update 1", 0.9, 1, 1)
    assert (best.low, best.high) == (0.0, 1.0)
    assert Path(best.path).name == "1"
