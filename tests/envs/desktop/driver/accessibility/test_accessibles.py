"""The objects of an application form a complete tree, whatever its table of objects holds."""

import itertools
from collections.abc import Sequence
from typing import Any

from turnwise.envs.desktop.driver.accessibility.accessibles import ROOT, Accessible, Application, Reader, showing
from turnwise.envs.desktop.driver.accessibility.dbus import Bus, Call
from turnwise.envs.desktop.driver.accessibility.roles import SHOWING

FRAME, PANEL = 23, 39
STATES = [1 << SHOWING, 0]


def shown(path: str) -> Accessible:
    return Accessible(path, "", 0, path, PANEL, 1 << SHOWING, frozenset(), 0)


class LateTable(Bus):
    """The bus of an application that began its table after its first window: each object but that one is missing."""

    def __init__(self, levels: int) -> None:
        self.levels = levels

    def call(self, one: Call, timeout_s: float) -> list[Any] | None:
        return self.calls([one], timeout_s)[0]

    def calls(self, wanted: Sequence[Call], timeout_s: float) -> list[list[Any] | None]:
        return [self.reply(*one) for one in wanted]

    def reply(self, name: str, path: str, interface: str, member: str, signature: str, values: Any) -> list[Any] | None:
        if path == ROOT:
            return [[[":1.1", ROOT]]]
        if member == "GetItems":
            return [[((":1.1", "0"), (":1.1", ROOT), (":1.1", ROOT), 0, 1, (), "window", FRAME, "", STATES)]]
        if member == "GetConnectionUnixProcessID":
            return [1]
        below = [(":1.1", str(int(path) + 1))] if int(path) < self.levels else []
        replies: dict[str, Any] = {"GetChildren": below, "GetRole": PANEL, "GetState": STATES}
        return [replies.get(member, len(below) if values[-1:] == ("ChildCount",) else path)]


def test_levels_that_the_table_lacks_are_read() -> None:
    (application,), hung = Reader(LateTable(12)).applications()
    assert [one.path for one in showing(application)] == [str(level) for level in range(13)]
    assert not hung


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
