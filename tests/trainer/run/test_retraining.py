"""A past run trained again from its store has the same weights, bit for bit, and an altered record is found."""

import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from sqlalchemy import delete, select, update
from turnwise.errors import TurnwiseError
from turnwise.store import queries
from turnwise.store.content.arrays import pack, unpack
from turnwise.store.database import Database, open_database
from turnwise.store.schema import batch_item, blob, message_image, policy_version, train_batch
from turnwise.tests.agents.players import Stage
from turnwise.tests.trainer.run.past_runs import BASE, SEVERAL_STEPS, Process, past_run, tiny_model, tiny_vision_model
from turnwise.trainer.learner.provenance.stored_batch import NotRecorded
from turnwise.trainer.run.retraining import Retraining, retrain

WEIGHT = {"name": "negative_advantage_weight", "weight": 0.5}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("m") / "model")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """Return the folder of a run of three updates with the default components."""
    folder = tmp_path_factory.mktemp("past")
    past_run(folder, {}, lambda stage: Process(stage, {}, model).train(0, 3))
    return folder


@pytest.fixture
def copy(past: Path, tmp_path: Path) -> Iterator[Database]:
    """Return a copy of that run's store, to alter, with its checkpoints."""
    shutil.copytree(past, tmp_path, dirs_exist_ok=True)
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db")
    yield database
    database.close()


def on_a_run(tmp_path: Path, chosen: dict[str, Any], scenario: Callable[[Stage], Awaitable[None]]) -> Retraining:
    """Return the re-training of a run that ``scenario`` trained."""
    database = open_database(past_run(tmp_path, chosen, scenario))
    try:
        return retrain(database, "r")
    finally:
        database.close()


@pytest.mark.parametrize(
    "chosen",
    [
        {"learner": SEVERAL_STEPS, "proximal": {"name": "ewma"}, "sample_filters": [WEIGHT]},
        {"loss": {"reference_kl_coef": 0.1}, "replay_buffer": {"name": "dots", "capacity": 4}},
    ],
    ids=["several steps", "reuse and a reference"],
)
def test_a_run_trained_again_from_its_store_has_the_same_weights(
    tmp_path: Path, model: Path, chosen: dict[str, Any]
) -> None:
    result = on_a_run(tmp_path, chosen, lambda stage: Process(stage, chosen, model).train(0, 3))
    check_equal(result, 3)


def test_a_run_with_images_trained_again_has_the_same_weights(tmp_path: Path) -> None:
    """The features are computed again from the stored pictures, of which the context held the newest one."""
    model = tiny_vision_model(tmp_path / "model")
    chosen = {"learner": {**SEVERAL_STEPS, "max_tokens_per_micro_batch": 64}}
    check_equal(on_a_run(tmp_path, chosen, lambda stage: Process(stage, chosen, model).train(0, 2)), 2)


def test_a_run_is_not_trained_again_without_one_of_its_pictures(tmp_path: Path) -> None:
    model = tiny_vision_model(tmp_path / "model")
    chosen = {"learner": {**SEVERAL_STEPS, "max_tokens_per_micro_batch": 64}}
    database = open_database(past_run(tmp_path, chosen, lambda stage: Process(stage, chosen, model).train(0, 1)))
    with database.transaction() as tx:
        picture: str = tx.conn.execute(select(message_image.c.blob_hash).limit(1)).scalar_one()
        tx.conn.execute(delete(blob).where(blob.c.hash == picture))
    with pytest.raises(TurnwiseError, match=f"{picture[:12]}"):
        retrain(database, "r")
    database.close()


def check_equal(result: Retraining, updates: int) -> None:
    assert [one.update for one in result.updates] == list(range(1, updates + 1))
    assert result.first_difference is None
    assert result.start == 0
    assert len({one.hash for one in result.updates}) == updates, "each update changes the weights"


def test_a_run_resumed_with_another_rate_is_trained_again_along_its_surviving_history(
    tmp_path: Path, model: Path
) -> None:
    chosen = {"learner": SEVERAL_STEPS, "proximal": {"name": "ewma"}}
    hashes: list[str] = []

    async def scenario(stage: Stage) -> None:
        await Process(stage, chosen, model).train(0, 3, save_at=1)
        store = stage.store()
        saved = (await store.read(queries.checkpoints))[-1]
        assert saved.update == 1
        await store.rewind(saved.id)
        slower = {**chosen, "learner": {**SEVERAL_STEPS, "learning_rate": 2e-3, "lr_schedule": "constant"}}
        resumed = Process(stage, slower, model, saved)
        await resumed.train(100, 2)
        hashes.append(resumed.learner.weights_hash())

    result = on_a_run(tmp_path, chosen, scenario)
    assert result.first_difference is None
    assert [(one.update, one.version) for one in result.updates] == [(1, 1), (2, 4), (3, 5)]
    assert [result.updates[-1].hash] == hashes


def test_the_first_update_that_differs_is_reported(copy: Database) -> None:
    check_equal(retrain(copy, "r"), 3)
    with copy.transaction() as tx:
        row = tx.conn.execute(batch_item.select().where(batch_item.c.version_id == 2)).first()
        assert row is not None
        arrays = unpack(row.detail)
        arrays["advantage"] = arrays["advantage"] * 1.5
        key = (batch_item.c.version_id == 2) & (batch_item.c.trajectory_no == row.trajectory_no)
        tx.conn.execute(update(batch_item).where(key).values(detail=pack(arrays)))
    result = retrain(copy, "r")
    assert [one.matches for one in result.updates] == [True, False]
    assert result.first_difference is not None
    assert result.first_difference.update == 2
    assert retrain(copy, "r", last=1).first_difference is None


def test_a_record_that_does_not_fit_is_refused(copy: Database) -> None:
    row = {}
    with copy.read() as conn:
        found = conn.execute(batch_item.select().where(batch_item.c.version_id == 1)).first()
        assert found is not None
        row = dict(found._mapping)

    def refused(error: str, kind: type[TurnwiseError] = TurnwiseError, **values: Any) -> None:
        with copy.transaction() as tx:
            key = (batch_item.c.version_id == 1) & (batch_item.c.trajectory_no == row["trajectory_no"])
            tx.conn.execute(update(batch_item).where(key).values(**values))
        with pytest.raises(kind, match=error):
            retrain(copy, "r")

    arrays = unpack(row["detail"])
    refused("has no detail of trajectory", NotRecorded, detail=None)
    refused("altered", detail=row["detail"][:-3])
    refused("names path 5", detail=pack({**arrays, "path": arrays["position"] * 0 + 5}))
    shorter = {
        "tokens": arrays["tokens"] - 1,
        **{name: arrays[name][1:] for name in ("advantage", "logprob", "entropy")},
    }
    refused("it has", detail=pack({name: arrays[name] for name in arrays if name not in shorter} | shorter))
    for recipe, error in (({"sources": 1}, "was altered, or written by another"), (None, "of an older turnwise")):
        with copy.transaction() as tx:
            tx.conn.execute(update(train_batch).values(recipe=recipe))
        refused(error, NotRecorded, detail=row["detail"])


def test_an_adapter_is_not_trained_again_on_another_model(tmp_path: Path, model: Path) -> None:
    base = shutil.copytree(model, tmp_path / "base")
    chosen = {"model": {"path": str(base)}, "learner": {**BASE["learner"], "lora": {"rank": 2}}}
    database = open_database(past_run(tmp_path, chosen, lambda stage: Process(stage, chosen, base).train(0, 1)))
    check_equal(retrain(database, "r"), 1)
    weights = load_file(base / "model.safetensors")
    save_file({name: 1.01 * value for name, value in weights.items()}, base / "model.safetensors", {"format": "pt"})
    with pytest.raises(TurnwiseError, match="was trained on other weights than those in"):
        retrain(database, "r")
    database.close()


def test_a_run_without_hashes_or_checkpoints_is_refused(copy: Database, tmp_path: Path) -> None:
    with copy.transaction() as tx:
        tx.conn.execute(update(policy_version).values(weights_hash=""))
    with pytest.raises(NotRecorded, match="has no hash of its weights: it was computed on `cpu`"):
        retrain(copy, "r")
    with copy.transaction() as tx:
        tx.conn.execute(update(policy_version).values(checkpoint=str(tmp_path)))
    with pytest.raises(NotRecorded, match=rf"no intact checkpoint to re-train from: .*{tmp_path}"):
        retrain(copy, "r")
