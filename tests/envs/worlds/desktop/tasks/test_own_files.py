"""The applications' own files: what they write by themselves is no document, whatever the agent does with them.

CI tries a file of every kind; the soak tries all applications.
"""

import pytest
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.tests.envs.worlds.desktop.playing import Played

FILES = {"a.txt": b"hello\n"}
CLOSE = ('press("alt+F4")', "wait(500)")


@pytest.fixture(scope="module")
def env(desktop: DesktopSession) -> Played:
    """An environment on the desktop of all modules."""
    made = Played()
    made.desktop = desktop
    return made


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        pytest.param(
            "lxterminal", (r'type("ls\nexit\n")', "wait(800)"), id="history of the shell", marks=pytest.mark.soak
        ),
        pytest.param("galculator", CLOSE, id="settings of the calculator"),
        pytest.param(
            "mousepad a.txt",
            ('press("ctrl+o")', "wait(500)", 'press("Escape")', 'press("ctrl+q")', "wait(500)"),
            id="keys",
        ),
        pytest.param(
            "gnumeric",
            ('press("ctrl+s")', "wait(800)", 'press("Escape")', *CLOSE),
            id="spreadsheet",
            marks=pytest.mark.soak,
        ),
        pytest.param("pcmanfm .", ('press("ctrl+d")', "wait(300)", 'press("Return")', *CLOSE), id="bookmark"),
        pytest.param("pcmanfm .", ("double_click({listitem 'a.txt'})", "wait(1500)"), id="menus and a socket"),
        pytest.param(
            "ristretto",
            ('press("ctrl+o")', "wait(800)", 'press("Escape")', *CLOSE),
            id="pictures",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_what_applications_write_is_no_document(env: Played, command: str, actions: tuple[str, ...]) -> None:
    env.begin(command, files=FILES, data=FILES)
    for action in actions:
        env.act(action)
    assert env.act("done()")[1] == 1.0
    assert env.end is not None
    assert env.end.folders == frozenset()
    assert len(env.end.files) > 1


def test_a_desktop_that_started_again_leaves_no_document(env: Played) -> None:
    env.begin("mousepad", files=FILES, data=FILES)
    env.shell("pkill Xvfb; sleep 1")
    env.act("wait(0)")
    assert env.act("done()")[1] == 1.0
