"""Imported episodes are an expert's, in a run of their own; exports and imports of a store agree."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.records import GroupState, Horizon, Purpose, Source, Status
from turnwise.store import queries
from turnwise.store.content.blobs import digest
from turnwise.store.database import Database, open_database
from turnwise.store.errors import ExchangeError, StoreError
from turnwise.store.exchange import importing
from turnwise.store.exchange.atif.reading import read_atif
from turnwise.store.exchange.episodes import Episode, read_episodes, selected_ids
from turnwise.store.exchange.exporting import export
from turnwise.store.exchange.importing import Imported, as_expert, import_episodes
from turnwise.store.exchange.parquet import read_parquet
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.queries import RunReader
from turnwise.tests.agents.pictures import READABLE
from turnwise.tests.store.conftest import sqlite_first
from turnwise.tests.store.exchange.making import LAST_HASH, episode, make_id, plain
from turnwise.tests.store.making import call, create_run, group, play_group, prune, sqlite_store, start, trajectory


def imported(database: Database, *episodes: Episode, run: str = "import-x", **config: Any) -> Imported:
    return import_episodes(database, run, episodes, config={"files": "x", **config}, code_version="0", task_id=make_id)


def stored(database: Database, **filters: Any) -> list[Episode]:
    return list(read_episodes(database, selected_ids(database, **filters)))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(sqlite_store(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path}/other/turnwise.db", create=True)
    yield opened
    assert list(check_store(opened, content=True)) == []
    opened.close()


def expert(one: Episode, run: str = "import-x") -> Any:
    """Return the records that the store holds of an imported episode."""
    made = as_expert(one, run, make_id, None)
    return plain(replace(made, group=replace(made.group, state=GroupState.FILTERED)))


@sqlite_first
def test_an_episode_is_stored_as_an_experts(database: Database) -> None:
    given = [episode(0), episode(1, images=False, source=Source.EXPERT, policy="oracle")]
    assert imported(database, *given) == Imported("import-x", 2, 0)
    found = stored(database)
    assert [plain(one) for one in found] == [expert(one) for one in given]
    first, second = (one.trajectory for one in found)
    assert (first.source, first.policy, second.policy) == (Source.EXPERT, "r", "oracle")
    assert (second.uid, first.uid != given[0].trajectory.uid) == (given[1].trajectory.uid, True)
    assert not any(any(message.mask) for message in first.messages)
    assert [message.source for message in first.messages] == ["env", "expert", "env", "expert"]
    assert found[0].group.purpose is Purpose.EVAL
    with database.read() as conn:
        run = queries.find_run(conn, "import-x")
    chosen = RunReader("r", database).demonstrations(limit=9, environment="turnwise/TextSite-v0")
    assert (run.kind, run.status) == ("import", "finished")
    assert sorted(chosen) == sorted(one.id for one in (first, second))


def test_a_repeated_import_adds_nothing(home: Database) -> None:
    imported(home, episode(0), episode(1))
    before = [plain(one) for one in stored(home)]
    assert imported(home, episode(0), episode(1)) == Imported("import-x", 0, 2)
    assert imported(home, episode(0), run="import-y") == Imported("import-y", 0, 1)
    assert [plain(one) for one in stored(home)] == before
    with home.read() as conn:
        assert [run.id for run in queries.list_runs(conn)] == ["import-x"]


def test_an_interrupted_import_goes_on(home: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 1)

    def broken() -> Iterator[Episode]:
        yield episode(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_episodes(home, "import-x", broken(), config={"files": "x"}, code_version="0", task_id=make_id)
    assert status(home) == "failed"
    assert imported(home, episode(0), episode(1)) == Imported("import-x", 1, 1)
    assert status(home) == "finished"


def status(database: Database) -> str:
    with database.read() as conn:
        return str(queries.find_run(conn, "import-x").status)


def test_a_name_that_is_taken_is_refused(home: Database) -> None:
    create_run(home, "r")
    with pytest.raises(ExchangeError, match="a run `r`, which is of kind `train`: choose another name with `--run`"):
        imported(home, episode(0), run="r")
    imported(home, episode(0))
    with pytest.raises(ExchangeError, match="`import-x`, which is the import of other files"):
        imported(home, episode(1), files="y")


@pytest.mark.parametrize("images", [True, False])
def test_an_exported_store_returns_from_parquet(
    database: Database, other: Database, tmp_path: Path, images: bool
) -> None:
    imported(database, *(episode(number, images=images) for number in range(3)))
    path = tmp_path / "all.parquet"
    done = export(database, selected_ids(database), path, "parquet")
    assert (done.trajectories, done.steps, done.scrubbed) == (3, 6, 0)
    before = [plain(one) for one in stored(database)]
    assert [plain(one) for one in read_parquet(path)] == before
    imported(other, *read_parquet(path))
    assert [plain(one) for one in stored(other)] == before


def illustrated(number: int, content: bytes) -> Episode:
    """Return an episode whose first observation, first message and end show a picture."""
    one, name = episode(number), digest(content)
    first, second = one.trajectory.steps
    steps = [replace(first, images=(name,)), replace(second, screenshot="")]
    shown, *rest = one.trajectory.messages
    messages = [replace(shown, images=(name,)), *(replace(message, images=()) for message in rest)]
    ends: dict[str, Any] = {"final_images": (name,), "final_screenshot": ""}
    changed = replace(one.trajectory, steps=steps, messages=messages, **ends)
    return replace(one, trajectory=changed, images={name: content})


@pytest.mark.parametrize("kind", ["parquet", "atif"])
def test_pictures_return_byte_for_byte(home: Database, other: Database, tmp_path: Path, kind: str) -> None:
    """Nothing encodes them again, whatever their mode and whatever their chunks hold."""
    given = [illustrated(number, one) for number, one in enumerate(READABLE.values())]
    imported(home, *given)
    path = tmp_path / f"out.{kind}"
    export(home, selected_ids(home), path, kind)
    imported(other, *(read_parquet(path) if kind == "parquet" else read_atif(path, None)))
    returned = sorted(stored(other), key=lambda one: one.group.task.seed)
    assert [one.images for one in returned] == [one.images for one in given]
    assert [one.trajectory.final_images for one in returned] == [one.trajectory.final_images for one in given]
    for one, two in zip(returned, given, strict=True):
        assert [step.images for step in one.trajectory.steps] == [step.images for step in two.trajectory.steps]


def test_a_selection_leaves_out_pruned_trajectories(home: Database) -> None:
    imported(home, *(episode(number) for number in range(3)))
    first, *others = selected_ids(home)
    prune(home, first)
    left_out: list[int] = []
    assert list(selected_ids(home, pruned=left_out.append)) == others
    assert sum(left_out) == 1
    assert list(selected_ids(home, limit=1)) == others[:1]


def test_an_exported_store_returns_from_atif(home: Database, other: Database, tmp_path: Path) -> None:
    imported(home, episode(0), episode(1))
    export(home, selected_ids(home), tmp_path / "out", "atif")
    imported(other, *read_atif(tmp_path / "out", None))
    before, after = stored(home), sorted(stored(other), key=lambda one: one.group.task.seed)
    for one, two in zip(before, after, strict=True):
        assert [step.action for step in two.trajectory.steps] == [step.action for step in one.trajectory.steps]
        bare = [replace(each.trajectory, steps=(), messages=()) for each in (one, two)]
        assert plain(bare[0]) == plain(bare[1])
        assert replace(one.group, task=two.group.task) == two.group
        assert one.group.task == two.group.task


def test_a_selection_is_exported(home: Database, tmp_path: Path) -> None:
    imported(home, episode(0), episode(1, success=False), episode(2, status=Status.TRUNCATED, stop_reason="turns"))

    def seeds(**filters: Any) -> list[int]:
        return [one.group.task.seed for one in stored(home, **filters)]

    assert seeds() == [5, 6, 7]
    assert seeds(limit=2) == [5, 6]
    assert seeds(success=True) == [5, 7]
    assert seeds(status="truncated", run="import-x", env=None) == [7]
    with pytest.raises(StoreError, match="no trajectory matches, so nothing was written"):
        export(home, selected_ids(home, policy="nobody"), tmp_path / "x.jsonl", "messages")
    assert list(tmp_path.glob("*x.jsonl*")) == []


def test_a_running_trajectory_is_not_exported(home: Database, tmp_path: Path) -> None:
    start(home)
    call(home, "open_group", group=group())
    call(home, "start_trajectory", trajectory=trajectory("t"))
    with pytest.raises(ExchangeError, match="trajectory 't' is still running: export it after its end"):
        export(home, ["t"], tmp_path / "x.jsonl", "messages")
    assert list(tmp_path.glob("*x.jsonl*")) == []


def test_an_existing_file_is_kept(home: Database, tmp_path: Path) -> None:
    imported(home, episode(0))
    path = tmp_path / "x.jsonl"
    path.write_text("mine")
    with pytest.raises(ExchangeError, match="exists: name another path with `--out`, or add `--overwrite`"):
        export(home, selected_ids(home), path, "messages")
    assert path.read_text() == "mine"
    export(home, selected_ids(home), path, "messages", overwrite=True)
    assert len(json.loads(path.read_text())["messages"]) == 5
    with pytest.raises(ExchangeError, match="is an existing folder"):
        export(home, selected_ids(home), tmp_path, "atif", overwrite=True)


@pytest.mark.parametrize("kind", ["atif", "messages", "sharegpt"])
def test_a_secret_in_the_instructions_of_an_environment_is_not_exported(
    home: Database, tmp_path: Path, kind: str
) -> None:
    imported(home, episode(0, images=False))
    path = tmp_path / "out"
    export(home, selected_ids(home), path, kind, system=lambda group: "log in with password=hunter2hunter2")
    text = path.read_text() if path.is_file() else "".join(one.read_text() for one in path.iterdir())
    assert "log in with password=***" in text
    assert "hunter2" not in text


def test_secrets_stay_in_the_store(home: Database, other: Database, tmp_path: Path) -> None:
    one = episode(0, images=False)
    key = "ghp_" + "a1B2" * 9
    steps = [replace(one.trajectory.steps[0], observation=f"token {key}"), one.trajectory.steps[1]]
    options = {"family": "find", "server": "https://me:p4ss@host/"}
    changed = replace(one.group, task=replace(one.group.task, options=options))
    imported(home, Episode(changed, replace(one.trajectory, steps=steps), "the end"))
    done = export(home, selected_ids(home), tmp_path / "x.parquet", "parquet")
    assert done.scrubbed == 1
    assert key.encode() not in (tmp_path / "x.parquet").read_bytes()
    imported(other, *read_parquet(tmp_path / "x.parquet"))
    (found,) = stored(other)
    assert found.trajectory.steps[0].observation == "token ***"
    assert found.trajectory.messages == ()
    assert found.group.task.options["server"] == "https://me:***@host/"
    assert found.group.task.id == make_id(found.group.task)


def broken(**changes: Any) -> Episode:
    return episode(0, **changes)


def with_task(**changes: Any) -> Episode:
    one = episode(0)
    return replace(one, group=replace(one.group, task=replace(one.group.task, **changes)))


STEPS, MESSAGES = episode(0).trajectory.steps, episode(0).trajectory.messages


BROKEN = [
    (broken(status=Status.RUNNING), "has not ended"),
    (broken(uid=None), "has no uid"),
    (broken(steps=STEPS[1:]), "its steps do not count up from 0"),
    (broken(messages=MESSAGES[1:]), "its messages do not count up from 0"),
    (broken(messages=[replace(MESSAGES[0], parent=1), *MESSAGES[1:]]), "message 0 is not after its parent"),
    (broken(messages=[replace(MESSAGES[0], tokens=[-1]), *MESSAGES[1:]]), "has a token id that is out of range"),
    (with_task(split="zz"), "the split of its task is 'zz', not one of train, test"),
    (with_task(options=["a"]), "its options, extras or reward parts are not a JSON object"),
    (with_task(env_id="a\x00b"), "a name has a NUL character"),
    (broken(error="x" * (16 * 2**20 + 1)), "a text has more than 16,777,216 characters"),
    (broken(messages=MESSAGES[:2]), "step 1 names a message that is missing"),
    (broken(steps=[replace(STEPS[0], reward=float("nan")), STEPS[1]]), "is not finite"),
    (broken(steps=[replace(STEPS[0], observation_hash="xyz"), STEPS[1]]), "is not in hex"),
    (replace(broken(), group=replace(broken().group, horizon=Horizon(2**31, 1, 1, 1))), "is out of range"),
    (replace(broken(), images={}), "content of an image is missing"),
    (replace(broken(), images={**broken().images, LAST_HASH: b"else"}), "has another hash"),
]


def test_an_episode_that_does_not_fit_together_is_refused(home: Database) -> None:
    for given, reason in BROKEN:
        with pytest.raises(ExchangeError, match=reason):
            imported(home, given)
    assert stored(home) == []
    with home.read() as conn:
        assert queries.list_groups(conn) == []
        assert queries.list_runs(conn) == []


def test_a_branch_is_imported_alone(home: Database) -> None:
    imported(home, episode(0, branched_from="r:0-0", branched_at=1))
    (found,) = stored(home)
    assert (found.trajectory.branched_from, found.trajectory.branched_at) == (None, None)


def test_a_trajectory_of_a_policy_is_exported_exactly_and_imported_as_a_copy(home: Database, tmp_path: Path) -> None:
    start(home)
    play_group(home, "g")
    before = stored(home)
    assert [list(message.mask) for message in before[0].trajectory.messages[:2]] == [[0, 0, 0], [1, 1]]
    path = tmp_path / "x.parquet"
    export(home, selected_ids(home, run="r"), path, "parquet")
    assert [plain(one) for one in read_parquet(path)] == [plain(one) for one in before]
    assert imported(home, *read_parquet(path)) == Imported("import-x", 2, 0)
    assert imported(home, *read_parquet(path)) == Imported("import-x", 0, 2)
    assert [plain(one) for one in stored(home, run="r")] == [plain(one) for one in before]
    copies = stored(home, run="import-x")
    assert [one.trajectory.steps for one in copies] == [one.trajectory.steps for one in before]
    assert not {one.uid for one in copies} & {one.uid for one in before}
