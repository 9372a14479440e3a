"""References to elements in the actions of oracles."""

import pytest
from turnwise.envs.worlds.computer.elements import resolve

NODES = [
    {"role": "button", "name": "Save", "id": 3, "in_viewport": True},
    {"role": "button", "name": "It's", "id": 4, "in_viewport": True},
    {"role": "button", "name": "Save", "id": 5, "in_viewport": False},
    {"role": "button", "name": "Save", "id": 6, "in_viewport": True},
    {"role": "textbox", "name": "", "id": 7, "in_viewport": True},
]


@pytest.mark.parametrize(
    ("action", "resolved"),
    [
        ("click({button 'Save'})", "click(3)"),
        ("click({button 'Save' 2})", "click(6)"),
        ("click({button 'It\\'s'})", "click(4)"),
        ("drag({textbox}, {button 'Save'})", "drag(7, 3)"),
        ('type("{}")', 'type("{}")'),
    ],
)
def test_a_reference_becomes_a_number(action: str, resolved: str) -> None:
    assert resolve(action, NODES) == resolved


def test_a_missing_element_is_reported_with_those_in_view() -> None:
    with pytest.raises(LookupError, match=r"button 'Save', button .It's., button 'Save', textbox ''"):
        resolve("click({button 'Open'})", NODES)
