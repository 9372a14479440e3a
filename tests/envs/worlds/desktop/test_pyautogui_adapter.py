"""OSWorld's dialect becomes actions of the desktop."""

import pytest
from turnwise.envs.worlds.computer.calls import Action, Invalid
from turnwise.envs.worlds.desktop.pyautogui_adapter import adapt


def hold(**arguments: object) -> Action:
    """Return one half of a press."""
    return Action("hold", arguments)


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("DONE", [Action("done", {"text": ""})]),
        ("FAIL", [Action("fail", {})]),
        ("WAIT", [Action("wait", {"ms": 500})]),
        ("pyautogui.click(100, 200)", [Action("click", {"x": 100.0, "y": 200.0, "button": "left", "count": 1})]),
        ("pyautogui.rightClick(x=1, y=2)", [Action("click", {"x": 1.0, "y": 2.0, "button": "right", "count": 1})]),
        ("pyautogui.doubleClick((1, 2))", [Action("click", {"x": 1.0, "y": 2.0, "button": "left", "count": 2})]),
        ("pyautogui.hotkey('ctrl', 's')", [Action("press", {"key": "ctrl+s"})]),
        ("pyautogui.press('enter', presses=2)", [Action("press", {"key": "enter"})] * 2),
        ("pyautogui.typewrite('a b', interval=0.1)", [Action("type", {"text": "a b"})]),
        ("pyautogui.scroll(-3)", [Action("scroll", {"direction": "down", "clicks": 3})]),
        ("time.sleep(1.5)", [Action("wait", {"ms": 1500})]),
        (
            "pyautogui.moveTo(1, 2); pyautogui.dragTo(3, 4)",
            [
                Action("move", {"x": 1.0, "y": 2.0}),
                hold(button="left", down=True),
                Action("move", {"x": 3.0, "y": 4.0}),
                hold(button="left", down=False),
            ],
        ),
        ("pyautogui.keyDown('shift')", [hold(key="shift", down=True)]),
    ],
)
def test_a_line_becomes_actions(text: str, actions: list[Action]) -> None:
    assert adapt(text) == actions


def test_another_dialect_is_left_alone() -> None:
    assert adapt("click(12)") is None


@pytest.mark.parametrize("text", ["pyautogui.click(1, 2); import os", "pyautogui.click(1, 2).x", "pyautogui.press(3)"])
def test_what_has_no_equivalent_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        adapt(text)


def test_a_line_has_a_limited_number_of_calls() -> None:
    with pytest.raises(Invalid, match="more than 20 calls"):
        adapt(";".join(["pyautogui.click(1, 2)"] * 21))
