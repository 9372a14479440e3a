"""The reading commands on a real store, and the errors of every wrong use of the command line."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text
from turnwise import __version__
from turnwise.console.commands import doctor
from turnwise.console.commands.doctor import Part
from turnwise.envs.runner.observations import png
from turnwise.records import GroupState, Status, Step, Trajectory
from turnwise.store import operations
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import rows_of
from turnwise.store.database import open_database
from turnwise.tests.envs.faulty import FAULTY
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.migrations.revisions import add_revision

from ..conftest import ENV, Turnwise


def test_an_empty_store_is_reported(turnwise: Turnwise, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    open_database(url, create=True).close()
    assert turnwise("runs", "list", "--store", url).out == "no run in this store\n"
    assert turnwise("trajectories", "list", "--store", url).out == "no trajectory in this store\n"


def test_trajectories_are_listed_and_paged(turnwise: Turnwise, store: str) -> None:
    every = ["trajectories", "list", "--run", "demo", "--json", "--store", store, "--ascending"]
    assert [row["id"] for row in json.loads(turnwise(*every).out)] == ["t0", "t1"]
    assert [row["id"] for row in json.loads(turnwise(*every, "--limit", "1").out)] == ["t0"]
    assert [row["id"] for row in json.loads(turnwise(*every, "--after", "t0").out)] == ["t1"]
    assert json.loads(turnwise(*every, "--status", "completed").out) == []
    assert {row["status"] for row in json.loads(turnwise(*every).out)} == {"truncated"}
    message = turnwise("trajectories", "list", "--status", "completed", "--success", "--store", store).out
    assert message == "no trajectory matches success True, status 'completed'\n"


def test_text_of_an_agent_is_shown_inert(turnwise: Turnwise, store: str) -> None:
    shown = turnwise("trajectories", "show", "t1", "--store", store).out
    assert "\x1b" not in shown
    assert "> [red]click[/red] home" in shown


def test_json_of_a_trajectory_keeps_the_stored_text(turnwise: Turnwise, store: str) -> None:
    shown = json.loads(turnwise("trajectories", "show", "t1", "--json", "--store", store).out)
    assert shown["steps"][0]["action"].startswith("\x1b[2J")
    assert shown["task"]["env_id"] == ENV


def test_shaped_rewards_and_verdicts_are_shown(turnwise: Turnwise, store: str) -> None:
    verdict = {"reward": "llm_judge", "score": 0.75}
    database = open_database(store)
    with database.transaction() as tx:
        operations.close_group(tx, group="g1", state=GroupState.SCORING)
        scores = [operations.Rewards("t0", [0.5], [verdict]), operations.Rewards("t1", None, [{"error": "no answer"}])]
        operations.score_group(tx, group="g1", number=0, state=GroupState.FAILED, rewards=scores)
    database.close()
    lines = turnwise("trajectories", "show", "t0", "--store", store).out.splitlines()
    assert {"shaped": "0.5", "verdict.0.reward": "llm_judge", "verdict.0.score": "0.75"}.items() <= {
        tuple(line.split(maxsplit=1)) for line in lines[: lines.index("")] if len(line.split()) > 1
    }
    assert any(line.endswith("(shaped +0.5)  (invalid)") for line in lines)
    assert "shaped" not in turnwise("trajectories", "show", "t1", "--store", store).out.replace("shaped", "", 1)
    shown = json.loads(turnwise("trajectories", "show", "t0", "--json", "--store", store).out)
    assert shown["rewards"] == {"trajectory": "t0", "rewards": [0.5], "verdicts": [verdict]}


def test_text_of_a_world_or_agent_cannot_pose_as_a_line_of_turnwise(turnwise: Turnwise, store: str) -> None:
    pose = "text\nsuccess      True\n   > done  +99"
    extras = {"id": "forged", "success": True, "reward": 99.0, "\x1b[2Jnote\nstatus": pose, "\ud800": "odd"}
    database = open_database(store)
    with database.transaction() as tx:
        operations.start_trajectory(tx, trajectory=Trajectory("posed", "demo", "g1", 0, 1))
        step = Step(0, pose, "00" * 16, pose, 0.0, {}, False, True, True, "", None, 0.0, 0.0)
        operations.append(tx, trajectory="posed", rows=rows_of([step], []))
        operations.finish_trajectory(
            tx,
            trajectory="posed",
            status=Status.TRUNCATED,
            reward=0.0,
            success=False,
            final_observation=pose,
            extras=extras,
        )
    database.close()
    lines = turnwise("trajectories", "show", "posed", "--store", store).out.splitlines()
    head = dict(line.split(maxsplit=1) for line in lines[: lines.index("")] if not line.startswith(" "))
    assert {name: head[name] for name in ("id", "status", "success", "reward")} == {
        "id": "posed",
        "status": "truncated",
        "success": "False",
        "reward": "0",
    }
    assert head["extras.id"] == "forged"
    assert not any("\x1b" in line for line in lines)
    posed = [line.split() for line in lines if line.startswith(("   >", "success"))]
    assert posed == [["success", "False"], [">", "text"]]
    assert lines.count("   |    > done  +99") == 2
    assert lines.count("   |    > done  +99  +0") == 1


@pytest.mark.parametrize("terminal", ["0", "1"])
def test_a_terminal_cannot_wrap_a_line_into_one_of_turnwise(
    turnwise: Turnwise, store: str, terminal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pose = "go" + " " * 75 + "7  forged turn"
    database = open_database(store)
    with database.transaction() as tx:
        operations.start_trajectory(tx, trajectory=Trajectory("posed", "demo", "g1", 0, 1))
        step = Step(0, pose, "00" * 16, pose, 0.0, {}, False, True, True, "", None, 0.0, 0.0)
        operations.append(tx, trajectory="posed", rows=rows_of([step], []))
        operations.finish_trajectory(
            tx,
            trajectory="posed",
            status=Status.TRUNCATED,
            reward=0.0,
            success=False,
            final_observation=pose,
            extras={"note": pose},
        )
    database.close()
    monkeypatch.setenv("TTY_COMPATIBLE", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    lines = turnwise("trajectories", "show", "posed", "--store", store).out.splitlines()
    parts = [line[at : at + 80] for line in lines for at in range(0, len(line), 80)]
    if terminal == "1":
        forged = [part for part in parts if "forged turn" in part]
        assert len(forged) == 4
        assert all(part.lstrip().startswith("| ") for part in forged)
    else:
        assert sum(pose in line for line in lines) == 4


def with_screenshots(store: str, *others: bytes) -> str:
    """Add a trajectory: a turn that shows a picture, one of which the run kept a screenshot, then a turn per entry of
    ``others``. Return the hash of the first picture."""
    pictures = [png(np.full((2, 3, 3), shade, np.uint8)) for shade in (0, 255)] + list(others)
    names = [digest(picture) for picture in pictures]
    steps = [
        Step(turn, "", "00" * 16, "[screenshot 0]", 0.0, {}, False, False, True, "", None, 0.0, 0.0, images=(name,))
        for turn, name in enumerate(names)
    ]
    steps[1] = replace(steps[1], images=(), screenshot=names[1])
    database = open_database(store)
    with database.transaction() as tx:
        operations.start_trajectory(tx, trajectory=Trajectory("seen", "demo", "g1", 0, 1))
        images = dict(zip(names, pictures, strict=True))
        operations.append(tx, trajectory="seen", rows=rows_of(steps, [], images))
    database.close()
    return names[0]


def test_screenshots_are_named_at_their_turns_and_written(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    first = with_screenshots(store)
    show = ["trajectories", "show", "seen", "--store", store]
    ended = turnwise(*show)
    assert f"\n0  \n   [screenshot {first[:6]}…]\n   > [screenshot 0]" in ended.out
    assert ended.out.count("…]\n") == 2
    assert ended.err == ""
    folder = tmp_path / "made" / "shots"
    ended = turnwise(*show, "--json", "--images", str(folder))
    assert json.loads(ended.out)["steps"][0]["images"] == [first]
    assert ended.err == f"images written to {folder}: 2\n"
    written = sorted(folder.iterdir())
    assert [path.name[:4] for path in written] == ["000-", "001-"]
    assert written[0].name == f"000-{first[:16]}.png"
    assert digest(written[0].read_bytes()) == first
    assert turnwise("trajectories", "show", "t0", "--images", str(folder), "--store", store).err == (
        "the trajectory has no stored image; `turnwise trajectories replay t0 --images "
        f"{folder}` writes the screenshots of a re-execution, if its environment has any\n"
    )


def test_an_image_is_written_under_the_ending_of_its_format(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    others = {".jpg": b"\xff\xd8\xff\xe0 jpeg", ".gif": b"GIF89a", ".webp": b"RIFF\x04\0\0\0WEBP", ".bin": b"<svg/>"}
    with_screenshots(store, *others.values())
    turnwise("trajectories", "show", "seen", "--images", str(tmp_path / "shots"), "--store", store)
    written = sorted((tmp_path / "shots").iterdir())
    assert [path.suffix for path in written] == [".png", ".png", *others]
    assert [path.read_bytes() for path in written[2:]] == list(others.values())


def test_images_that_cannot_be_written_are_reported(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    with_screenshots(store)
    (tmp_path / "taken").write_text("a file")
    ended = turnwise("trajectories", "show", "seen", "--images", str(tmp_path / "taken"), "--store", store)
    assert (ended.code, ended.out) == (2, "")
    assert f"--images {tmp_path / 'taken'}" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trajectories", "list", "--run", "nope"], "no run nope"),
        (["trajectories", "list", "--after", "nope"], "nope"),
        (["trajectories", "list", "--status", "compelted"], "'running', 'completed', 'truncated', 'env_error'"),
        (["trajectories", "list", "--purpose", "trian"], "'trian' is not one of 'train', 'eval'"),
        (["runs", "list", "--kind", "evals"], "'evals' is not one of 'train', 'eval'"),
        (["runs", "fork", "demo", "--set", "max_steps"], "expected key=value"),
    ],
)
def test_a_wrong_name_is_reported_and_exits_2(
    turnwise: Turnwise, store: str, arguments: list[str], message: str
) -> None:
    ended = turnwise(*arguments, "--store", store)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["runs", "stop", "Demo"], "demo"),
        (["runs", "fork", "demo-2"], "demo"),
        (["runs", "list", "--after", "deno"], "demo"),
        (["trajectories", "list", "--run", "demmo"], "demo"),
        (["trajectories", "list", "--after", "t1x"], "t1"),
        (["trajectories", "show", "t1.1"], "t1"),
        (["trajectories", "replay", "t0.1"], "t0"),
        (["trajectories", "replay", "--run", "dem"], "demo"),
    ],
)
def test_an_unknown_id_names_the_nearest(turnwise: Turnwise, store: str, arguments: list[str], near: str) -> None:
    ended = turnwise(*arguments, "--store", store)
    assert ended.code == 2
    assert f"did you mean '{near}'?" in ended.err
    assert f"`turnwise {'runs' if near == 'demo' else 'trajectories'} list`" in ended.err


def test_the_package_of_a_missing_environment_is_named_once(turnwise: Turnwise, store: str) -> None:
    database = open_database(store)
    with database.engine.begin() as conn:
        conn.execute(text("UPDATE task SET env_id = 'gone/Env-v0'"))
        conn.execute(text("""UPDATE trajectory SET extras = '{"env_package": "gone_package 0.1.0"}'"""))
    reseal(database)
    database.close()
    ended = turnwise("trajectories", "replay", "t0", "t1", "--store", store)
    assert (ended.code, ended.out) == (1, "0 of 0 match\n")
    assert ended.err == (
        "turnwise: 2 not re-executed: environment `gone/Env-v0` is not registered: install the package that played it, "
        "`gone_package==0.1.0`\n"
    )
    assert "extras.env_package  gone_package 0.1.0" in turnwise("trajectories", "show", "t0", "--store", store).out


def test_the_error_of_a_played_environment_omits_frames_of_turnwise(turnwise: Turnwise) -> None:
    ended = turnwise("envs", "play", FAULTY, "--option", "fault=raise", "--option", "where=reset")
    assert ended.code == 1
    assert f"{FAULTY} reset raised" in ended.err
    assert ended.err.endswith("LookupError: the page is gone\n")
    assert len(ended.err.splitlines()) < 12


def test_a_missing_store_is_reported_with_a_remedy(turnwise: Turnwise, tmp_path: Path) -> None:
    ended = turnwise("runs", "list", "--store", f"sqlite:///{tmp_path}/none.db")
    assert ended.code == 2
    assert "turnwise db upgrade" in ended.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["runs", "list"], ["db", "current"], ["trajectories", "replay", "t0"]])
def test_a_missing_store_is_named_with_its_absolute_path(
    turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ended = turnwise(*command, "--store", "sqlite:///../none/runs.db")
    assert ended.code == 2
    assert f"no store at {tmp_path}/none/runs.db;" in ended.err
    (tmp_path / "here" / "empty.db").touch()
    if command != ["db", "current"]:
        ended = turnwise(*command, "--store", "sqlite:///empty.db")
        assert f"{tmp_path}/here/empty.db holds no turnwise store" in ended.err


def test_the_error_of_another_revision_names_the_command(
    turnwise: Turnwise, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_revision(tmp_path, monkeypatch)
    ended = turnwise("runs", "list", "--store", store)
    assert ended.code == 2
    assert f"turnwise db upgrade --store {store}" in ended.err
    assert turnwise("db", "current", "--store", store).code == 1


def test_a_word_is_not_a_file_name(turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = turnwise("db", "upgrade", "--store", "foo")
    assert ended.code == 2
    assert "'foo' names no store; write sqlite:///FILE" in ended.err
    assert not list(tmp_path.iterdir())


def test_db_upgrade_makes_a_store_and_may_be_repeated(turnwise: Turnwise, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/turnwise.db"
    first = json.loads(turnwise("db", "upgrade", "--json", "--store", url).out)
    assert first["revision"] == first["head"]
    assert json.loads(turnwise("db", "upgrade", "--json", "--store", url).out) == first
    assert turnwise("db", "current", "--store", url).code == 0


def test_envs_check_reports_each_check(turnwise: Turnwise) -> None:
    report = json.loads(turnwise("envs", "check", ENV, "--json").out)
    assert report["ok"] is True
    assert {finding["verdict"] for finding in report["findings"]} == {"passed"}


def test_envs_check_names_running_checks_and_lists_failures_last(turnwise: Turnwise) -> None:
    command = [sys.executable, "-m", "turnwise.console.app", "envs", "check", FAULTY]
    hanging = subprocess.Popen([*command, "--option", "fault=hang", "--option", "where=reset"], stdout=subprocess.PIPE)
    try:
        assert hanging.stdout is not None
        assert hanging.stdout.read(5) == b"reset"
        assert hanging.poll() is None
    finally:
        hanging.kill()
        hanging.communicate(timeout=10)
    ended = turnwise("envs", "check", FAULTY, "--option", "fault=raise", "--option", "where=reset")
    assert ended.code == 1
    assert ended.out.splitlines()[-1] == "0 passed, 19 skipped, 1 failed: reset"


def test_envs_list_contains_the_environments_of_turnwise(turnwise: Turnwise) -> None:
    assert ENV in [row["id"] for row in json.loads(turnwise("envs", "list", "--json").out)]
    (row,) = json.loads(turnwise("envs", "list", "textsite", "--json").out)
    assert (row["id"], row["package"], row["sandboxed"], row["tasks"]) == (ENV, f"turnwise {__version__}", False, None)
    assert "on a small text site" in row["description"]


def test_envs_list_folds_the_tasks_of_miniwob_and_names_the_nearest_id(turnwise: Turnwise) -> None:
    lines = turnwise("envs", "list").out.splitlines()
    assert [line.split()[:4] for line in lines if "MiniWoB-" in line] == [
        ["turnwise/MiniWoB-*-v0", "(130)", "web", "every"]
    ]
    assert lines[-1].startswith("turnwise/WebApps-v0")
    assert turnwise("envs", "list", "--all").out.count("MiniWoB-") == 130
    assert turnwise("envs", "list", "MiniWoB-click-test").out.count("MiniWoB-") == 3
    none = turnwise("envs", "list", "tex-sit")
    assert (none.code, none.out) == (1, "")
    assert none.err == "turnwise: no environment has `tex-sit` in its id; did you mean `turnwise/TextSite-v0`?\n"
    assert turnwise("envs", "list", "pick").err == "turnwise: no environment has `pick` in its id\n"
    none = turnwise("envs", "list", "minwob", "--json")
    assert (none.code, json.loads(none.out)) == (1, [])
    assert "did you mean `turnwise/MiniWoB-" in none.err


def test_doctor_finds_the_dependencies_of_training(turnwise: Turnwise) -> None:
    ended = turnwise("doctor", "--json")
    parts = {part["name"]: part for part in json.loads(ended.out)}
    assert ended.code == 0
    assert all(part["found"] and part["version"] for part in parts.values() if part["needed"])
    assert {"docker", "bwrap", "postgres", "disk space", "GPU"} <= set(parts)
    assert all(part["get"] for part in parts.values() if not part["found"])


def test_doctor_lists_the_gpus(turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771 MiB'\necho 'NVIDIA H200, 143771 MiB'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (gpu,) = (part for part in json.loads(turnwise("doctor", "--json").out) if part["name"] == "GPU")
    assert gpu["version"].startswith("2 × NVIDIA H200, 143771 MiB")
    assert gpu["found"] == ("[gpu]" not in gpu["get"])


def test_doctor_names_the_key_that_a_vllm_for_gpus_needs(turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "0.32.0" if name == "vllm" else version(name))
    (vllm,) = (part for part in json.loads(turnwise("doctor", "--json").out) if part["name"] == "vllm")
    assert vllm["version"] == "vllm 0.32.0, for GPUs: set `engine.tensor_parallel_size` to 1 or more"


def test_doctor_installs_into_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: version("no such package"))
    get = {part.name: part.get for part in doctor.find_parts()}
    assert get["wandb"] == f"`{sys.executable} -m pip install wandb`"
    assert get["psycopg"] == f'`make install`, or `{sys.executable} -m pip install "turnwise[postgres]"`'


def test_doctor_marks_the_dependencies_of_training(turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Part("torch", False, "", "the learner", "pip", needed=True), Part("bubblewrap", False, "", "local", "apt")]
    monkeypatch.setattr(doctor, "find_parts", lambda: parts)
    ended = turnwise("doctor")
    torch, bubblewrap, last = ended.out.splitlines()[1:]
    assert ended.code == 1
    assert "missing, needed" in torch
    assert "needed" not in bubblewrap
    assert last == "training needs torch"
    monkeypatch.setattr(doctor, "find_parts", lambda: parts[1:])
    ended = turnwise("doctor")
    assert ended.code == 0
    assert ended.out.endswith("training needs nothing that is missing\n")


def test_the_program_without_a_command_prints_its_commands(turnwise: Turnwise) -> None:
    ended = turnwise()
    assert "Commands:" in ended.out + ended.err


def test_the_installed_program_starts() -> None:
    program = Path(sys.executable).with_name("turnwise")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("turnwise ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\nenviroments = []\n', "environments"),
        ('name = "x"\n[environments]\nid = "a"\n', "double brackets: [[environments]]"),
    ],
)
def test_a_wrong_configuration_is_rejected_before_anything_starts(
    turnwise: Turnwise, tmp_path: Path, text: str, message: str
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(text)
    ended = turnwise("train", str(config), "--store", f"sqlite:///{tmp_path}/store/turnwise.db")
    assert ended.code == 2
    assert message in ended.err
    assert not (tmp_path / "store").exists()
