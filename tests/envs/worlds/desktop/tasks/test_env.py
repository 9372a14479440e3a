"""The environment draws tasks by its options and grades by the end state; no sandbox is started."""

import pytest
from turnwise.envs import make
from turnwise.envs.splits import TemplateChoice
from turnwise.envs.worlds.desktop.task import EndState
from turnwise.envs.worlds.desktop.tasks import DESKTOP_SPLITS, TEMPLATES, draw
from turnwise.envs.worlds.desktop.tasks.env import DesktopTasksEnv
from turnwise.tests.envs.worlds.desktop.playing import world_of


def test_it_is_registered() -> None:
    assert isinstance(make("turnwise/Desktop-v0"), DesktopTasksEnv)
    assert len(set(TEMPLATES)) >= 24


def test_an_index_is_a_task_of_its_split() -> None:
    env = DesktopTasksEnv(by="application", held_out_application="terminal", observation="both")
    drawn = TemplateChoice(DESKTOP_SPLITS, "application", "terminal").instance(3, "test")
    assert env.task(3, "test").goal == draw(drawn.template, drawn.seed).goal


def test_a_template_keeps_the_seed() -> None:
    assert DesktopTasksEnv(template="files/rename-file").task(11, "test").goal == draw("files/rename-file", 11).goal


def test_text_mode_leaves_out_what_only_a_picture_shows() -> None:
    for observation, shown in (("text", False), ("both", True)):
        env = make("turnwise/Desktop-v0", observation=observation)
        assert isinstance(env, DesktopTasksEnv)
        goals = [env.task(index, "train").goal for index in range(len(TEMPLATES))]
        assert any("shows a" in goal for goal in goals) is shown
    with pytest.raises(ValueError, match="needs a screenshot"):
        DesktopTasksEnv(template="viewer/find-shape")


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown `by`"):
        DesktopTasksEnv(by="site")
    with pytest.raises(ValueError, match="unknown template"):
        DesktopTasksEnv(template="editor/nothing")
    with pytest.raises(ValueError, match="unknown `held_out_application`"):
        DesktopTasksEnv(held_out_application="browser")


def test_the_end_state_decides() -> None:
    task = draw("terminal/join-files", 0)
    files = dict(task.data.documents)
    folders = {path.partition("/")[0] for path in files if "/" in path}
    end = EndState(task, world_of(files, folders))
    env = DesktopTasksEnv()
    assert env.check(end)
    assert not env.check(EndState(task, world_of(task.files, folders)))
