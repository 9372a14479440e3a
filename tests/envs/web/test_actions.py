"""Reading what an agent wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.web.actions import USAGE, VERBS, Action, Problem, read
from turnwise.envs.web.driver import act

ORIGIN = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("text", "verb", "arguments"),
    [
        ("click(12)", "click", {"id": 12, "button": "left"}),
        ("click ( 12 )", "click", {"id": 12, "button": "left"}),
        ('click("12", button="right")', "click", {"id": 12, "button": "right"}),
        ("click(10, 20.5)", "click", {"x": 10.0, "y": 20.5, "button": "left"}),
        ("dblclick(3)", "dblclick", {"id": 3, "count": 2}),
        ('I think so.\n\n```\nfill(3, "it\'s")\n```', "fill", {"id": 3, "text": "it's"}),
        ("select(4, 'one')", "select", {"id": 4, "options": ["one"]}),
        ("select(4, ['one', 'two'])", "select", {"id": 4, "options": ["one", "two"]}),
        ('press("Enter")', "press", {"key": "Enter"}),
        ('press(3, "Control+a")', "press", {"id": 3, "key": "Control+a"}),
        ('scroll("down")', "scroll", {"direction": "down"}),
        ("drag(1, 2)", "drag", {"id": 1, "to": 2}),
        (f'goto("{ORIGIN}/a?b=c")', "goto", {"url": f"{ORIGIN}/a?b=c"}),
        ("close_tab()", "close_tab", {}),
        ("answer(42)", "answer", {"text": "42"}),
        ("because\n" * 4000 + "click(7)", "click", {"id": 7, "button": "left"}),
        (r'fill(3, "\d+ \1 \n")', "fill", {"id": 3, "text": "\\d+ \\1 \n"}),
    ],
)
def test_what_is_written_is_read(text: str, verb: str, arguments: dict[str, object]) -> None:
    assert read(text, (ORIGIN,)) == Action(verb, arguments)


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
def test_what_is_no_action_is_told(text: str) -> None:
    said = read(text, (ORIGIN,))
    assert isinstance(said, Problem)
    assert 0 < len(said.text) < 400


@pytest.mark.parametrize("text", ["fill(5, text)", "fill(5)"])
def test_who_forgets_a_quote_reads_how_it_is_written(text: str) -> None:
    assert read(text) == Problem('fill is written fill(3, "text")')


@given(st.text() | st.builds("{}({})".format, st.sampled_from(sorted(VERBS)), st.text(max_size=30)))
def test_reading_never_raises(text: str) -> None:
    said = read(text, (ORIGIN,))
    assert isinstance(said, Problem) or said.verb in VERBS


def test_every_action_says_how_it_is_used() -> None:
    assert list(USAGE) == list(VERBS)


def test_the_browser_knows_every_action_that_can_be_read() -> None:
    assert set(VERBS) - {"answer"} == set(act.VERBS)
