"""What the agent hides or leaves anywhere counts: each way fails a task to delete and a task to change nothing.

CI tries a place and a change of every kind; the soak tries all in both tasks.
"""

from dataclasses import replace

import pytest
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.envs.worlds.desktop.tasks import draw
from turnwise.envs.worlds.desktop.tasks.env import DesktopTasksEnv
from turnwise.tests.envs.soaked import soaked_but

DELETE, KEEP = "files/delete-file", "files/largest-file"
TRASH = "mkdir -p .local/share/Trash/files .local/share/Trash/info"
NOTE = r"printf '[Trash Info]\nPath=/home/user/x\nDeletionDate=2026-11-26T15:00:00\n'"
CONFIG = ".config/glib-2.0/settings/keyfile"
MOVES = {
    "dotted name": "mv {name} .{name}",
    "cache": "mkdir -p .cache && mv {name} .cache/x",
    "configuration": "mkdir -p .config && mv {name} .config/x",
    "hidden folder": "mkdir .x && mv {name} .x/",
    "settings": f"mkdir -p $(dirname {CONFIG}) && mv {{name}} {CONFIG}",
    "bookmarks": "mv {name} .gtk-bookmarks",
    "history of the shell": "mv {name} .bash_history",
    "small picture": f"mv {{name}} .cache/thumbnails/normal/{'0' * 32}.png",
    "Trash without a note": f"{TRASH} && mv {{name}} .local/share/Trash/files/",
    "link": "mv {name} .x && ln -s .x {name}",
    "temporary files": "mv {name} /tmp/x",
    "files of the session": "mv {name} /tmp/session/x",
    "file of the session": "mv {name} /tmp/session/bus.conf",
    "shared memory": "mv {name} /dev/shm/x",
    "outside of the home folder": "mv {name} /workspace/x",
}
"""Moves of a document out of sight."""
ADDITIONS = {
    "hard link": "ln {other} .x",
    "hard link as a setting": "ln {other} .gtk-bookmarks",
    "link": "ln -s {other} .x",
    "broken link": "ln -s nowhere .x",
    "link as a setting": "ln -s {other} .gtk-bookmarks",
    "replaced by a link": "mv {other} /tmp/x && ln -s /tmp/x {other}",
    "mode": "chmod 644 {other}",
    "mode of a program": "chmod +x {other}",
    "unreadable": "chmod 0 {other}",
    "mode of the home folder": "chmod 755 /workspace/home",
    "mode of a hidden folder": "chmod 755 .config",
    "empty hidden folder": "mkdir .x",
    "empty folder in a cache": "mkdir -p .cache/x",
    "empty folder in an application's": "mkdir -p .cache/thumbnails/x",
    "hidden file": "echo x > .x",
    "named pipe": "mkfifo .x",
    "named pipe in the session": "mkfifo /tmp/session/x",
    "socket": "python3 -c 'import socket; socket.socket(1).bind(\".x\")'",
    "empty file elsewhere": "touch /dev/shm/x",
    "Trash": f"{TRASH} && cp {{other}} .local/share/Trash/files/x && {NOTE} > .local/share/Trash/info/x.trashinfo",
    "note of nothing in the Trash": f"{TRASH} && {NOTE} > .local/share/Trash/info/x.trashinfo",
}
"""Changes that no task here requests."""
MOVED = (
    "dotted name",
    "settings",
    "small picture",
    "Trash without a note",
    "link",
    "files of the session",
    "shared memory",
)
COPIED = ("configuration", "temporary files", "file of the session")
LEFT = {
    DELETE: (
        "hard link",
        "replaced by a link",
        "mode of the home folder",
        "empty folder in a cache",
        "named pipe",
        "socket",
        "Trash",
    ),
    KEEP: ("link as a setting", "mode", "hidden file", "empty file elsewhere"),
}
"""The ways that CI tries."""


@pytest.fixture(scope="module")
def env(desktop: DesktopSession) -> DesktopTasksEnv:
    """An environment on the desktop of all modules."""
    made = DesktopTasksEnv()
    made.desktop = desktop
    return made


def end_after(env: DesktopTasksEnv, template: str, *commands: str) -> float:
    """Run commands as a program of the agent in the home folder, end the episode, and return the reward."""
    task = draw(template, 0)
    env.choice = replace(env.choice, template=template)
    env.reset(seed=0)
    expected = task.data.documents
    other, *_ = [name for name in sorted(expected) if "/" not in name]
    name = next((name for name in task.files if name not in expected), other)
    assert env.desktop.sandbox is not None
    for command in commands:
        script = f"umask 077; cd /workspace/home && {command.format(name=name, other=other)}"
        done = env.desktop.sandbox.exec(["sh", "-c", script], timeout_s=10)
        assert done.exit_code == 0, done.stderr
    return env.step(task.oracle[-1])[1]


def test_a_deletion_and_no_change_succeed(env: DesktopTasksEnv) -> None:
    assert end_after(env, DELETE, "rm {name}") == 1.0
    assert end_after(env, KEEP) == 1.0
    trashed = f"{TRASH} && mv {{name}} .local/share/Trash/files/x && {NOTE} > .local/share/Trash/info/x.trashinfo"
    assert end_after(env, DELETE, trashed) == 1.0


@pytest.mark.parametrize("way", soaked_but(MOVED, MOVES))
def test_a_document_that_was_moved_is_not_deleted(env: DesktopTasksEnv, way: str) -> None:
    assert end_after(env, DELETE, MOVES[way]) == 0.0


@pytest.mark.parametrize("way", soaked_but(COPIED, (way for way in MOVES if way != "link")))
def test_a_hidden_copy_is_a_change(env: DesktopTasksEnv, way: str) -> None:
    assert end_after(env, KEEP, MOVES[way].replace("mv", "cp")) == 0.0


@pytest.mark.parametrize(
    ("template", "way"),
    [
        pytest.param(template, way, marks=() if way in LEFT[template] else pytest.mark.soak)
        for template in LEFT
        for way in ADDITIONS
    ],
)
def test_an_unasked_change_fails(env: DesktopTasksEnv, template: str, way: str) -> None:
    deleted = ["rm {name}"] if template == DELETE else []
    assert end_after(env, template, *deleted, ADDITIONS[way]) == 0.0
