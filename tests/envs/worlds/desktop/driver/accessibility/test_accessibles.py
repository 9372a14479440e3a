"""The objects of an application form a complete tree, whatever its table of objects holds."""

import itertools
from collections.abc import Sequence
from typing import Any

from turnwise.envs.worlds.desktop.driver.accessibility.accessibles import (
    ROOT,
    Accessible,
    Application,
    Reader,
    Rect,
    showing,
)
from turnwise.envs.worlds.desktop.driver.accessibility.dbus import Bus, Call
from turnwise.envs.worlds.desktop.driver.accessibility.roles import SHOWING

FRAME, ICON, ICON_VIEW, PANEL = 23, 26, 30, 39


def shown(path: str) -> Accessible:
    return Accessible(path, "", 0, path, PANEL, 1 << SHOWING, frozenset(), 0)


class Window(Bus):
    """The bus of one window, whose table lacks everything below it: as many levels as there are ``roles``."""

    def __init__(self, *roles: int, states: int = 1 << SHOWING, rects: Sequence[Rect] = ()) -> None:
        self.roles, self.states, self.rects = (FRAME, *roles), states, rects

    def call(self, one: Call, timeout_s: float) -> list[Any] | None:
        return self.calls([one], timeout_s)[0]

    def calls(self, wanted: Sequence[Call], timeout_s: float) -> list[list[Any] | None]:
        return [self.reply(*one) for one in wanted]

    def reply(self, name: str, path: str, interface: str, member: str, signature: str, values: Any) -> list[Any] | None:
        if path == ROOT:
            return [[[":1.1", ROOT]]]
        if member == "GetItems":
            shown = [1 << SHOWING, 0]
            return [[((":1.1", "0"), (":1.1", ROOT), (":1.1", ROOT), 0, 1, (), "window", FRAME, "", shown)]]
        if member == "GetConnectionUnixProcessID":
            return [1]
        level = int(path)
        last = level + 1 == len(self.roles)
        replies: dict[str, Any] = {
            "GetChildren": [] if last else [(":1.1", str(level + 1))],
            "GetRole": self.roles[level],
            "GetState": [self.states if last else 1 << SHOWING, 0],
            "GetExtents": self.rects[level] if self.rects else (0, 0, 9, 9),
        }
        return [replies.get(member, int(not last) if values[-1:] == ("ChildCount",) else path)]


def paths(bus: Bus) -> list[str]:
    (application,), hung = Reader(bus).applications()
    assert not hung
    return [one.path for one in showing(application)]


def test_levels_that_the_table_lacks_are_read() -> None:
    assert paths(Window(*[PANEL] * 12)) == [str(level) for level in range(13)]


def test_an_icon_is_in_view_if_it_lies_in_its_view() -> None:
    view = (0, 0, 500, 400), (0, 20, 500, 300)
    assert paths(Window(ICON_VIEW, ICON, states=0, rects=[*view, (10, 30, 60, 60)])) == ["0", "1", "2"]
    assert paths(Window(ICON_VIEW, ICON, rects=[*view, (10, 330, 60, 60)])) == ["0", "1"]
    assert paths(Window(PANEL, ICON, states=0, rects=[*view, (10, 30, 60, 60)])) == ["0", "1"]


def test_an_object_that_is_its_own_descendant_is_reported_once() -> None:
    top, inner = shown("top"), shown("inner")
    top.children, inner.children = [inner], [inner, top]
    assert [one.path for one in showing(Application(":1.1", 1, tops=[top]))] == ["top", "inner"]
    assert not inner.children


def test_objects_that_share_their_children_do_not_multiply() -> None:
    levels = [[shown(f"{depth} {side}") for side in "ab"] for depth in range(60)]
    for upper, lower in itertools.pairwise(levels):
        for one in upper:
            one.children = [*lower, *lower]
    assert len(showing(Application(":1.1", 1, tops=list(levels[0])))) == 120
