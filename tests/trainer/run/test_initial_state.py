"""A run starts from a given model, from its newest checkpoint, or from the newest checkpoint of its parent."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from turnwise.agents.model_folder import base_model, is_adapter
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.project import run_folder
from turnwise.store.run_store import RunStore
from turnwise.store.writing.client import StoreClient
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import call, create_run, sqlite_store
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.context import RunContext
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.checkpoint import CheckpointManager
from turnwise.trainer.preflight.check import check
from turnwise.trainer.preflight.refusal import Command, Refused, Subject, refuse
from turnwise.trainer.run.callbacks import Callbacks
from turnwise.trainer.run.driver import Driver
from turnwise.trainer.run.identity import RunIdentity, resolve_run
from turnwise.trainer.run.initial_state import InitialState, initial_state
from turnwise.trainer.run.preparation import load_learner
from turnwise.trainer.shutdown import SHUTDOWN
from turnwise.trainer.telemetry.metrics import Metrics

PARENT, FORK = "r", "r-2"


def config(model: Path, **changes: object) -> RunConfig:
    return parse_config(
        {"name": PARENT, "environments": [{"id": "turnwise/TextSite-v0"}], "model": {"path": str(model)}, **changes}
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model in several shards, as large models are published."""
    whole = new_model(tmp_path / "whole", ["a", "b"], hidden=32, heads=1)
    sharded = tmp_path / "sharded"
    AutoModelForCausalLM.from_pretrained(whole).save_pretrained(sharded, max_shard_size="20KB")
    for file in whole.glob("*.j*"):
        if file.name.startswith("tokenizer") or file.suffix == ".jinja":
            (sharded / file.name).write_bytes(file.read_bytes())
    assert len(list(sharded.glob("*.safetensors"))) > 1
    return sharded


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(sqlite_store(tmp_path))
    yield opened
    opened.close()


def begin(database: Database, of: RunConfig, fork: bool = False, *, saves: bool = True) -> InitialState:
    """Run ``train`` without engines up to the first evaluation, or with ``saves`` up to the first checkpoint."""
    with database.read() as conn:
        rows = {name: queries.find_run(conn, name) for name in (PARENT, FORK) if exists(database, name)}
    identity = resolve_run(of, rows.get, fork)
    name = identity.name
    refuse(check(Subject(of, identity.command, database)))
    initial = initial_state(of, identity, database, run_folder(database, name))
    create_run(database, name, config=of.resolved(), config_hash=of.digest(), parent=identity.parent)
    if identity.resumes:
        call(database, "rewind", run=name, version=initial.version)
    if initial.version is None:
        version = call(database, "add_version", run=name, update=0, parent=None)
        if saves:
            asyncio.run(save(database, of, name, initial, version))
    return initial


def exists(database: Database, name: str) -> bool:
    with database.read() as conn:
        return any(one.id == name for one in queries.list_runs(conn))


def context_of(database: Database, of: RunConfig, store: RunStore, metrics: Metrics) -> RunContext:
    folder = run_folder(database, store.run)
    return RunContext(of, AlgorithmSet.of(of), database, store, folder, Streams(of.seed), metrics, lambda event: None)


async def resume(database: Database, of: RunConfig, initial: InitialState) -> None:
    """Record the resume of the run, as its driver does."""
    writer = CommitQueue(database)
    store = RunStore(PARENT, database, StoreClient(writer.run))
    driver = Driver(of, database, RunIdentity(PARENT, resumes=True), lambda event: None, 0.0, Callbacks())
    try:
        await driver._record(context_of(database, of, store, driver._metrics), initial)
    finally:
        driver._metrics.finish("stopped")
        writer.close()


async def save(database: Database, of: RunConfig, name: str, initial: InitialState, version: int) -> None:
    writer = CommitQueue(database)
    store = RunStore(name, database, StoreClient(writer.run))
    context = context_of(database, of, store, cast(Metrics, None))
    state = {"run": name, "update": 0, "version": version}
    saver = CheckpointManager(context, load_learner(context, initial), await store.uid(), initial.model, lambda: state)
    try:
        await saver.save(version)
    finally:
        writer.close()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())


def test_a_checkpoint_of_a_sharded_model_names_no_missing_weight_file(database: Database, model: Path) -> None:
    begin(database, config(model))
    resumed = begin(database, config(model))
    assert (resumed.version, resumed.update) == (0, 0)
    for index in resumed.model.glob("*.index.json"):
        named = set(json.loads(index.read_text())["weight_map"].values())
        assert all((resumed.model / name).exists() for name in named), index.name
    assert (resumed.model / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    assert list(weights(resumed.model)) == list(weights(model))


def test_two_stores_in_one_folder_keep_their_own_checkpoints(database: Database, model: Path, tmp_path: Path) -> None:
    """Versions count from 0 in each store: checkpoints of one name and version hold different weights."""
    other_model = new_model(tmp_path / "other", ["a", "b"], hidden=32, heads=1, seed=7)
    other = open_database(f"sqlite:///{tmp_path}/other.db", create=True)
    try:
        assert run_folder(database, PARENT) == run_folder(other, PARENT)
        begin(database, config(model))
        begin(other, config(other_model))
        for store, of in ((database, model), (other, other_model)):
            resumed = begin(store, config(of))
            assert resumed.version == 0
            expected = weights(of)
            assert all(torch.equal(value, expected[name]) for name, value in weights(resumed.model).items())
    finally:
        other.close()


def damage(path: Path, how: str) -> None:
    file = path / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] if how == "truncated" else data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("how", [pytest.param("truncated", marks=pytest.mark.soak), "one bit flipped"])
def test_a_broken_checkpoint_falls_back_to_the_one_before_it_and_never_to_the_start(
    database: Database, model: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = config(model)
    first = begin(database, of)
    version = call(database, "add_version", run=PARENT, update=1, parent=0)
    asyncio.run(save(database, of, PARENT, first, version))
    with database.read() as conn:
        older, newer = (Path(one.checkpoint) for one in queries.checkpoints(conn, PARENT))
    identity = RunIdentity(PARENT, resumes=True)
    folder = run_folder(database, PARENT)
    assert initial_state(of, identity, database, folder).model == newer
    forked = RunIdentity(FORK, resumes=False, parent=PARENT, parent_version=0)
    chosen = initial_state(of, forked, database, run_folder(database, FORK))
    assert (chosen.is_fork, chosen.parent_version) == (True, 0)
    assert chosen.command is Command.FORK, "no environment was looked at before the start"
    assert chosen.notes == ("forked run r from its update 0 (version 0)",)
    damage(newer, how)
    fallen_back = initial_state(of, identity, database, folder)
    assert (fallen_back.model, fallen_back.version) == (older, 0)
    (note,) = fallen_back.notes
    assert f"checkpoint `{newer}`: `model.safetensors` does not match its recorded hash; falling back" in note
    damage(older, how)
    with pytest.raises(TurnwiseError, match="run `r` has no intact checkpoint among 2"):
        initial_state(of, identity, database, folder)
    monkeypatch.setattr(SHUTDOWN, "hint", "")
    monkeypatch.setattr(SHUTDOWN, "record", None)
    asyncio.run(resume(database, config(model, max_steps=9), fallen_back))
    with database.read() as conn:
        (change,) = queries.find_run(conn, PARENT).changes
    assert (change["after_update"], change["keys"]["max_steps"][1]) == (0, 9)


LORA = {"rank": 4}


def test_a_run_with_an_adapter_resumes_from_it_and_its_fork_begins_with_the_merged_model(
    database: Database, model: Path
) -> None:
    adapted = config(model, learner={"lora": LORA})
    begin(database, adapted)
    resumed = begin(database, adapted)
    assert (resumed.version, is_adapter(resumed.model), base_model(resumed.model)) == (0, True, model)
    stored = load_file(resumed.model / "adapter_model.safetensors")
    changed = {name: value + 0.1 for name, value in stored.items()}
    save_file(changed, resumed.model / "adapter_model.safetensors")
    manifest = resumed.model / "training/MANIFEST.json"
    files = json.loads(manifest.read_text())
    files["files"]["adapter_model.safetensors"] = checkpoint._digest(resumed.model / "adapter_model.safetensors")
    manifest.write_text(json.dumps(files))

    fork = begin(database, config(model, learner={"lora": LORA}, seed=1), fork=True)
    assert fork.model == run_folder(database, FORK) / "model"
    assert not is_adapter(fork.model)
    query = "model.layers.0.self_attn.q_proj"
    first, second = (changed[f"base_model.model.{query}.lora_{one}.weight"] for one in "AB")
    expected = weights(model)[f"{query}.weight"] + 32 / 4 * second @ first
    assert torch.allclose(weights(fork.model)[f"{query}.weight"], expected, atol=1e-6)
    assert (fork.model / "tokenizer.json").exists()

    for file in model.glob("*.safetensors"):
        save_file({name: value + 1 for name, value in load_file(file).items()}, file)
    with pytest.raises(TurnwiseError, match="trained on other weights"):
        begin(database, adapted)


def test_an_adapter_is_neither_trained_on_random_weights_nor_taken_for_a_model(database: Database, model: Path) -> None:
    new = parse_config({"name": PARENT, "environments": [{"id": "turnwise/TextSite-v0"}], "learner": {"lora": LORA}})
    with pytest.raises(TurnwiseError, match=r"`learner\.lora` adapts trained weights.*set `model\.path`"):
        begin(database, new)
    begin(database, config(model, learner={"lora": LORA}))
    adapter = begin(database, config(model, learner={"lora": LORA})).model
    with pytest.raises(TurnwiseError, match="holds a LoRA adapter: merge it first"):
        begin(database, config(adapter, name="other"))


@pytest.mark.parametrize("again_with_fork", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_fork_that_was_killed_before_its_first_checkpoint_starts_from_its_parent_again(
    database: Database, model: Path, again_with_fork: bool
) -> None:
    begin(database, config(model))
    other = config(model, seed=1)
    first = begin(database, other, fork=True, saves=False)
    again = begin(database, other, fork=again_with_fork)
    assert exists(database, FORK)
    assert (again.version, again.update, again.state) == (None, 0, {})
    assert again.model == first.model == run_folder(database, FORK) / "model"
    expected = weights(model)
    assert all(torch.equal(value, expected[name]) for name, value in weights(again.model).items())
    assert begin(database, other, fork=again_with_fork).version == 1


def test_a_fork_of_a_run_without_checkpoints_is_refused(database: Database, model: Path) -> None:
    begin(database, config(model), saves=False)
    with pytest.raises(TurnwiseError, match="run `r` has no intact checkpoint to fork from"):
        begin(database, config(model, seed=1), fork=True)


def change(model: Path, **settings: object) -> None:
    file = model / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def test_an_untrainable_model_is_refused_before_the_run_is_stored(database: Database, model: Path) -> None:
    change(model, layer_types=["chunked_attention"] * 2)
    with pytest.raises(Refused, match=r"`model\.path`: .*qwen3.* layers of the type chunked_attention"):
        begin(database, config(model))
    assert not exists(database, PARENT)
    (model / "config.json").write_text("{")
    with pytest.raises(TurnwiseError, match=r"^`model\.path`: .*config\.json"):
        begin(database, config(model))


def test_a_model_that_vllm_cannot_serve_is_refused_before_the_run_is_stored(database: Database, model: Path) -> None:
    change(model, use_sliding_window=True, sliding_window=64, max_window_layers=1, layer_types=None)
    with pytest.raises(Refused, match=r"`model\.path`: vLLM cannot serve this model \(qwen3\)"):
        begin(database, config(model))
    assert not exists(database, PARENT)
    create_run(database, PARENT)
    offline, resumed = config(model, offline={"run": "other"}), RunIdentity(PARENT, resumes=True)
    assert initial_state(offline, resumed, database, run_folder(database, PARENT)).model == model


def test_an_unsuitable_reference_policy_is_refused_before_the_run_is_stored(database: Database, model: Path) -> None:
    given = config(model)
    settings = given.model.model_copy(update={"reference": str(model.parent / "absent")})
    with pytest.raises(TurnwiseError, match=r"`model\.reference`: `.*absent` is neither a Hugging Face model folder"):
        begin(database, given.model_copy(update={"model": settings}))
    assert not exists(database, PARENT)
