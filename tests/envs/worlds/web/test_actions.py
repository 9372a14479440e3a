"""Parsing actions: every text becomes an action or a message that the agent can act on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.web.actions import ANSWER, DIALECT, OTHER_NAMES, VERBS, Action, InvalidAction, parse
from turnwise.envs.worlds.web.driver import act

ORIGIN = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("text", "verb", "arguments"),
    [
        ("click(12)", "click", {"id": 12, "button": "left"}),
        ("click ( 12 )", "click", {"id": 12, "button": "left"}),
        ("click('12')", "click", {"id": 12, "button": "left"}),
        ('click("12", button="right")', "click", {"id": 12, "button": "right"}),
        ('click(12, "right")', "click", {"id": 12, "button": "right"}),
        ('fill(3, "a\u2028b\u2029c\x0b\x0c\x85d")', "fill", {"id": 3, "text": "a\u2028b\u2029c\x0b\x0c\x85d"}),
        ("click(10, 20.5)", "click", {"x": 10.0, "y": 20.5, "button": "left"}),
        ('click("12", "middle")', "click", {"id": 12, "button": "middle"}),
        ('click(10, 20.5, "right")', "click", {"x": 10.0, "y": 20.5, "button": "right"}),
        ("dblclick(3)", "dblclick", {"id": 3, "count": 2, "button": "left"}),
        ('dblclick(3, "middle")', "dblclick", {"id": 3, "count": 2, "button": "middle"}),
        ('I think so.\n\n```\nfill(3, "it\'s")\n```', "fill", {"id": 3, "text": "it's"}),
        ("fill(bid='3', value='text')", "fill", {"id": 3, "text": "text"}),
        ("select_option(4, 'one')", "select_option", {"id": 4, "options": ["one"]}),
        ("select_option(4, ['one', 'two'])", "select_option", {"id": 4, "options": ["one", "two"]}),
        ('press("Enter")', "press", {"key": "Enter"}),
        ('press(3, "Control+a")', "press", {"id": 3, "key": "Control+a"}),
        ('keyboard_type("text")', "keyboard_type", {"text": "text"}),
        ('scroll("down")', "scroll", {"direction": "down"}),
        ("drag_and_drop(1, 2)", "drag_and_drop", {"id": 1, "to": 2}),
        ("drag_and_drop(1, 2, 3, 4)", "drag_and_drop", {"x": 1.0, "y": 2.0, "to_x": 3.0, "to_y": 4.0}),
        (f'goto("{ORIGIN}/a?b=c")', "goto", {"url": f"{ORIGIN}/a?b=c"}),
        ("go_back()", "go_back", {}),
        ("go_forward()", "go_forward", {}),
        ("tab_focus(1)", "tab_focus", {"tab": 1}),
        ("tab_close()", "tab_close", {}),
        ("noop(wait_ms=40)", "noop", {"ms": 40}),
        ("send_msg_to_user(42)", "send_msg_to_user", {"text": "42"}),
        ("because\n" * 4000 + "click(7)", "click", {"id": 7, "button": "left"}),
        (r'fill(3, "\d+ \1 \n")', "fill", {"id": 3, "text": "\\d+ \\1 \n"}),
    ],
)
def test_the_last_line_is_parsed(text: str, verb: str, arguments: dict[str, object]) -> None:
    assert parse(text, (ORIGIN,)) == Action(verb, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "click",
        "click()",
        "click(1, 2, 3, 4)",
        "click(-1)",
        "click(True)",
        "click(1e99, 2)",
        "clack(1)",
        "fill(1)",
        "fill(1, None)",
        'click(__import__("os"))',
        "click(1).x",
        'scroll("sideways")',
        'goto("javascript:alert(1)")',
        'goto("file:///etc/passwd")',
        'goto("http://127.0.0.1:8080.example/")',
        'goto("http://user@127.0.0.1:8080/")',
        'goto("http://127.0.0.1:9090/")',
        "(" * 5000,
        "click(12)\n" + "a" * 9000,
        "click(1\0)",
        "click({[]: 1})",
        "click(*[1])",
        "click(**{'button': 1})",
    ],
)
def test_an_invalid_action_has_a_message(text: str) -> None:
    parsed = parse(text, (ORIGIN,))
    assert isinstance(parsed, InvalidAction)
    assert 0 < len(parsed.message) < 400


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\xa0", "\t"]
)
def test_a_separator_inside_a_quoted_text_is_part_of_the_text(separator: str) -> None:
    text = f"{separator}a{separator}b{separator}"
    assert parse(f'Done.\r\nfill(3, "{text}")\r\n') == Action("fill", {"id": 3, "text": text})


@pytest.mark.parametrize("end", ["\r\n", "\r", "\\r\\n", "\\r"])
@pytest.mark.parametrize(("call", "verb"), [('fill(3, "{}")', "fill"), ('keyboard_type("{}")', "keyboard_type")])
def test_a_carriage_return_ends_one_line(call: str, verb: str, end: str) -> None:
    parsed = parse(call.format(f"a{end}b".replace("\r\n", "\r\\n")))
    assert isinstance(parsed, Action)
    assert (parsed.verb, parsed.arguments["text"]) == (verb, "a\nb")


@pytest.mark.parametrize("text", ['click(12, "Right")', 'dblclick(12, "20")', 'click(10, 20, "")'])
def test_an_unknown_button_is_invalid(text: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, InvalidAction)
    assert parsed.message.endswith("is not one of left, middle, right")


@pytest.mark.parametrize("text", ['click(12, "right", ["Shift"])', 'click(12, "right", button="left")'])
def test_a_second_button_is_invalid(text: str) -> None:
    assert parse(text) == InvalidAction(f"invalid arguments; usage: {VERBS['click'][1]}")


@pytest.mark.parametrize("text", ["select_option(3, [])", "select_option(3, ())", "select_option(3, options=[])"])
def test_no_option_is_invalid(text: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, InvalidAction)
    assert parsed.message.startswith("select_option needs one option at least")


@pytest.mark.parametrize("text", ["fill(5, text)", "fill(5)"])
def test_wrong_arguments_print_the_usage(text: str) -> None:
    assert parse(text) == InvalidAction('invalid arguments; usage: fill(3, "text")')


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("select(4, 'one')", "select_option"),
        ("back()", "go_back"),
        ("forward()", "go_forward"),
        ("switch_tab(0)", "tab_focus"),
        ("close_tab()", "tab_close"),
        ('type("text")', "keyboard_type"),
        ("wait(500)", "noop"),
        ('answer("text")', "send_msg_to_user"),
        ("drag(1, 2)", "drag_and_drop"),
        ("clik(3)", "click"),
    ],
)
def test_an_unknown_verb_is_answered_with_the_nearest_one(text: str, verb: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, InvalidAction)
    assert parsed.message.startswith(f"unknown action {text.partition('(')[0]!r}; did you mean {verb}? Actions: click,")


def test_every_suggestion_is_a_verb_and_no_verb_has_two_names() -> None:
    assert set(OTHER_NAMES.values()) <= set(VERBS)
    assert not set(OTHER_NAMES) & set(VERBS)


@given(st.text() | st.builds("{}({})".format, st.sampled_from(sorted(VERBS)), st.text(max_size=30)))
def test_parsing_never_raises(text: str) -> None:
    parsed = parse(text, (ORIGIN,))
    assert isinstance(parsed, InvalidAction) or parsed.verb in VERBS


def test_the_usage_has_a_line_for_every_verb() -> None:
    assert [line.partition("(")[0] for line in DIALECT.usage.split("\n")] == list(VERBS)


def test_the_driver_executes_every_verb_except_the_answer() -> None:
    assert set(VERBS) - {ANSWER} == set(act.VERBS)
