"""The agent's actions: every text is an action or a message, and nothing is executed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.computer.calls import Action, InvalidAction
from turnwise.envs.worlds.desktop.actions import DIALECT, OTHER_NAMES, VERBS, parse


@pytest.mark.parametrize(
    ("text", "verb", "arguments"),
    [
        ("click(12)", "click", {"id": 12, "button": "left"}),
        ('I think\n`click(12, button="middle")`', "click", {"id": 12, "button": "middle"}),
        ("click(10, 20)", "click", {"x": 10.0, "y": 20.0, "button": "left"}),
        ("double_click(3)", "double_click", {"id": 3, "count": 2}),
        ("right_click(3)", "right_click", {"id": 3, "button": "right"}),
        ("drag(3, 7)", "drag", {"id": 3, "to_id": 7}),
        ("drag(1, 2, 3, 4)", "drag", {"x": 1.0, "y": 2.0, "to_x": 3.0, "to_y": 4.0}),
        ("move(5, 6)", "move", {"x": 5.0, "y": 6.0}),
        ('type("a\\nb")', "type", {"text": "a\nb"}),
        ('type("a\\r\\nb\\rc\\n\\r\\n")', "type", {"text": "a\nb\nc\n\n"}),
        ('type("a\u2028\u2029\\tb")', "type", {"text": "a\u2028\u2029\tb"}),
        ('click(12, "right")', "click", {"id": 12, "button": "right"}),
        ('pyautogui.write("a\\r\\nb")', "type", {"text": "a\nb"}),
        ('press("ctrl+s")', "press", {"key": "ctrl+s"}),
        ('scroll("down")', "scroll", {"direction": "down"}),
        ('scroll(12, "up", 5)', "scroll", {"direction": "up", "id": 12, "clicks": 5}),
        ('scroll(1, 2, "left")', "scroll", {"direction": "left", "x": 1.0, "y": 2.0}),
        ("wait()", "wait", {"ms": 500}),
        ('done("42")', "done", {"text": "42"}),
        ("fail()", "fail", {}),
    ],
)
def test_an_action_is_parsed(text: str, verb: str, arguments: dict[str, object]) -> None:
    assert parse(text) == [Action(verb, arguments)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "exactly one call"),
        ("click", "exactly one call"),
        ("click()", VERBS["click"][1]),
        ("click(-1)", "not a non-negative integer"),
        ("clik(3)", "did you mean click?"),
        ('write("x")', "did you mean type?"),
        ('scroll("sideways")', VERBS["scroll"][1]),
        ("__import__('os').system('true')", "exactly one call"),
        ("click(open('/etc/passwd'))", VERBS["click"][1]),
        *(
            (f'{call}("a\\{escape}b")', f"no key types the character U+{code}")
            for call in ("type", "pyautogui.write")
            for escape, code in (("x01", "0001"), ("x1b", "001B"), ("x7f", "007F"), ("x85", "0085"), ("ud800", "D800"))
        ),
        ("click(" + "9" * 9000 + ")", "longer than"),
        ("pyautogui.click(x)", "literal arguments"),
        ("pyautogui.screenshot()", "unknown call"),
    ],
)
def test_an_invalid_action_has_a_helpful_message(text: str, part: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, InvalidAction)
    assert part in parsed.message


def test_every_verb_has_a_usage_and_every_suggestion_is_a_verb() -> None:
    assert [line.partition("(")[0] for line in DIALECT.usage.split("\n")] == list(VERBS)
    assert set(OTHER_NAMES.values()) <= set(VERBS)


CALL = st.builds(
    lambda verb, values: f"{verb}({', '.join(map(repr, values))})",
    st.sampled_from([*VERBS, "pyautogui.click", "pyautogui.press", "pyautogui.scroll", "time.sleep"]),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.lists(st.integers()))),
)


@given(st.one_of(st.text(), CALL))
def test_any_text_is_actions_or_a_message(text: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, InvalidAction) or all(isinstance(one, Action) for one in parsed)
