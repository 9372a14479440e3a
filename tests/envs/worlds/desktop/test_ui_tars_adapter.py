"""The dialect of UI-TARS becomes actions of the desktop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.computer.calls import Action, Invalid, InvalidAction
from turnwise.envs.worlds.desktop.actions import parse
from turnwise.envs.worlds.desktop.ui_tars_adapter import adapt


def click(button: str = "left", count: int = 1) -> Action:
    return Action("click", {"x": 100.0, "y": 200.0, "button": button, "count": count})


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Thought: the button.\nAction: click(start_box='<|box_start|>(100,200)<|box_end|>')", click()),
        ("click(start_box='(100, 200)')", click()),
        ("click(point='<point>100 200</point>')", click()),
        ("click(start_box='[90, 180, 110, 220]')", click()),
        ("left_double(start_box='(100,200)')", click(count=2)),
        ("right_single(start_box='(100,200)')", click("right")),
        (
            "drag(start_box='(1,2)', end_box='(3.5,4)')",
            Action("drag", {"x": 1.0, "y": 2.0, "to_x": 3.5, "to_y": 4.0}),
        ),
        ("click(start_box='(.5,2.)')", Action("click", {"x": 0.5, "y": 2.0, "button": "left", "count": 1})),
        ("hotkey(key='ctrl shift s')", Action("press", {"key": "ctrl+shift+s"})),
        (r"type(content='it\'s\n')", Action("type", {"text": "it's\n"})),
        ("scroll(start_box='(1,2)', direction='down')", Action("scroll", {"x": 1.0, "y": 2.0, "direction": "down"})),
        ("scroll(direction='up')", Action("scroll", {"direction": "up"})),
        ("Action: wait()", Action("wait", {"ms": 3000})),
        ("finished(content='42')", Action("done", {"text": "42"})),
        ("finished()", Action("done", {"text": ""})),
        ("call_user()", Action("fail", {})),
    ],
)
def test_a_line_becomes_an_action(text: str, action: Action) -> None:
    assert adapt(text) == [action]
    assert parse(text) == [action]


@pytest.mark.parametrize("text", ["click(12)", "wait()", "drag(3, 7)", 'type("a")', "pyautogui.click(1, 2)", "", "("])
def test_another_dialect_is_left_alone(text: str) -> None:
    assert adapt(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("click(start_box='(1)')", "click(start_box=3)", "click(start_box='(1,2,3)')", "Action: click(1, 2)"),
        *("scroll(direction='in')", "drag(start_box='(1,2)')", "hotkey(key=[1])", "finished(sum=1)"),
        *("click(start_box='(1e9,2)')", "click(start_box='(999999,2)')", "type(content=open('x'))"),
    ],
)
def test_what_has_no_equivalent_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        adapt(text)
    assert isinstance(parse(text), InvalidAction)


@given(st.text(), st.sampled_from(["click", "type", "scroll", "finished"]), st.sampled_from(["start_box", "content"]))
def test_any_text_is_an_action_or_refused(text: str, name: str, argument: str) -> None:
    parse(f"{name}({argument}={text!r})")
    parse(f"Action: {text}")
