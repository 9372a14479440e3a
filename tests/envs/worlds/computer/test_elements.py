"""The page as text is bounded, in document order, and page text never poses as a message of the environment."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.computer.elements import render, targets
from turnwise.envs.worlds.web.driver.observe import Numbers, build_nodes, limit_text

Node = dict[str, Any]


def node(number: int, role: str, name: str = "", children: tuple[int, ...] = (), parent: int | None = 0) -> Node:
    found: Node = {
        "nodeId": str(number),
        "role": {"value": role},
        "name": {"value": name},
        "childIds": [str(one) for one in children],
        "backendDOMNodeId": 100 + number,
        "properties": [],
    }
    return found if parent is None else {**found, "parentId": str(parent)}


TREE = [
    node(0, "RootWebArea", "shop", (1, 2, 3), None),
    node(1, "heading", "Lamps", (4,)),
    node(2, "generic", "", (5,)),
    node(3, "button", "Buy"),
    node(4, "StaticText", "Lamps", (), 1),
    node(5, "StaticText", "five left", (), 2),
]
RECTS = {101: (0.0, 0.0, 90.0, 20.0), 102: (0.0, 30.0, 90.0, 20.0), 103: (0.0, 900.0, 90.0, 20.0)}


def rendered(numbers: Numbers, document: str = "1", clickable: frozenset[int] = frozenset()) -> str:
    nodes = build_nodes(TREE, RECTS, set(clickable), 640, 480)
    numbers.assign(document, nodes)
    return render({"tabs": [["http://127.0.0.1/", "shop"]], "active": 0, "notes": [], "nodes": nodes})


def test_a_page_is_tabs_and_nodes() -> None:
    assert rendered(Numbers()).splitlines() == [
        "* tab 0: 'shop' http://127.0.0.1/",
        "[1] heading 'Lamps'",
        "text 'five left'",
        "[3] button 'Buy' (out of view)",
    ]


def test_a_node_with_a_click_listener_is_listed_without_a_role() -> None:
    assert "[2] clickable 'five left'" in rendered(Numbers(), clickable=frozenset({102}))


def test_numbers_stay_within_a_document_and_are_never_used_twice() -> None:
    numbers = Numbers()
    first = rendered(numbers)
    assert rendered(numbers) == first
    again = rendered(numbers, document="2")
    assert "[1]" not in again
    assert len(set(numbers.nodes)) == 6


@given(st.text(max_size=80), st.text(max_size=80))
def test_page_text_stays_on_its_line_and_in_its_quotes(name: str, title: str) -> None:
    nodes = build_nodes([node(1, "button", name, (), None)], {}, set(), 640, 480)
    Numbers().assign("1", nodes)
    tab, shown = render({"tabs": [["http://127.0.0.1/", title]], "nodes": nodes}).splitlines()
    assert tab.startswith("* tab 0:")
    assert shown.startswith("[1] button")
    inner = shown.removeprefix("[1] button").strip()
    assert not inner or (inner[0] == inner[-1] == "'" and "'" not in inner[1:-1].replace("\\\\", "").replace("\\'", ""))


def test_the_text_of_a_page_is_limited() -> None:
    nodes = [{"role": "textbox", "name": "x" * 600, "value": "y" * 400} for _ in range(10)]
    assert len(limit_text(nodes, 3999)) == 3
    assert limit_text(nodes, 10_000) == nodes


def test_a_long_page_is_cut_at_a_line_end_with_a_count() -> None:
    nodes = [{"role": "button", "name": f"number {number}", "id": number, "depth": 0} for number in range(5000)]
    shown = render({"nodes": nodes}, max_chars=1000)
    assert len(shown) < 1040
    assert shown.endswith("more lines")


def test_the_targets_of_an_action_are_boxes_of_elements_in_view_and_points() -> None:
    nodes = [
        {"id": 3, "role": "button", "name": "Buy", "rect": [10, 20, 30.26, 40], "in_viewport": True},
        {"id": 4, "role": "button", "name": "Sell", "rect": [10, 900, 30, 40], "in_viewport": False},
    ]
    assert targets({"verb": "click", "id": 3}, nodes) == [[10.0, 20.0, 30.3, 40.0]]
    assert targets({"verb": "click", "id": 4}, nodes) == targets({"verb": "press", "key": "Enter"}, nodes) == []
    assert targets({"verb": "drag", "x": 1, "y": 2, "to_x": 3, "to_y": 4.5}, nodes) == [[1.0, 2.0], [3.0, 4.5]]
    assert targets({"verb": "drag_and_drop", "id": 4, "to": 3}, nodes) == [[10.0, 20.0, 30.3, 40.0]]
