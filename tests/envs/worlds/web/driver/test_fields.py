"""A field holds exactly the text that was written, or the action is refused and the field keeps its value.

CI writes a text of every kind into every kind of field; the soak has all.
"""

import re

import pytest
from turnwise.tests.envs.worlds.web.one_page import OnePage

FIELDS = {
    "date": "type=date value=2020-01-02",
    "day": "type=date value=2020-01-02 min=2020-01-01 max=2020-12-31",
    "time": "type=time value=10:00",
    "month": "type=month value=2020-01",
    "week": "type=week value=2020-W01",
    "moment": "type=datetime-local value=2020-01-02T03:04",
    "range": "type=range min=0 max=10 value=5",
    "steps": "type=range min=0 max=100 step=20 value=40",
    "default": "type=range value=50",
    "color": "type=color value=#112233",
    "number": "type=number value=7",
    "count": "type=number value=7 min=1 max=9",
    "short": "maxlength=3 value=old",
    "fixed": "readonly value=old",
    "off": "disabled value=old",
    "tick": "type=checkbox",
    "fixed date": "type=date readonly value=2020-01-02",
}
BODY = (
    "".join(f"<label>{name} field <input id='{name}' {attributes}></label>" for name, attributes in FIELDS.items())
    + "<label>area field <textarea id=area maxlength=4>old</textarea></label>"
    + "<div contenteditable role=textbox aria-label='edit field' id=edit>old</div>"
    + "<div contenteditable=false role=textbox aria-label='shut field' id=shut>old</div>"
    + "<label>one field <select id=one><option>a<option>b</select></label>"
    + "<label>many field <select id=many multiple><option selected>a<option>b<option>c</select></label>"
    + "<button onclick=\"const held = one => one.multiple ? [...one.selectedOptions].map(o => o.value).join('+')"
    " : one.value ?? one.textContent; for (const one of document.querySelectorAll('[id]'))"
    " if (one.id !== 'log') log(`${one.id}=${held(one)}`)\">report</button>"
    "<script>for (const kind of ['input', 'change']) addEventListener(kind, event => log('event ' + event.target.id))"
    "</script>"
)
WRITABLE = f"{BODY}<p>to write</p>"
"""Another page with the same fields, so that ``fields`` is opened again after a test has written."""


def held(page: OnePage, name: str) -> str:
    """Return the value of the field of this name, as the page has it."""
    seen, _ = page.try_action("click({button})", button="button 'report'")
    return re.findall(rf"[:;] {re.escape(name)}=(.*?);", seen)[-1]


def line(page: OnePage, name: str) -> str:
    """Return the beginning of the line of the field of this name."""
    found = re.search(rf"\[\d+\] ((?!LabelText)\S+ '{name} field)", page.seen)
    assert found, page.seen
    return found.group(1)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("date", "05/07/2024", "it holds a date as YYYY-MM-DD; it is unchanged"),
        ("date", "2024-02-30", "it holds a date as YYYY-MM-DD"),
        pytest.param("date", "2024-5-6", "it holds a date as YYYY-MM-DD", marks=pytest.mark.soak),
        ("time", "25:99", "it holds a time as HH:MM"),
        pytest.param("time", "9:30 PM", "it holds a time as HH:MM", marks=pytest.mark.soak),
        ("month", "2024-13", "it holds a month as YYYY-MM"),
        pytest.param("month", "May 2024", "it holds a month as YYYY-MM", marks=pytest.mark.soak),
        ("week", "2024-W60", "it holds a week as YYYY-Www"),
        ("moment", "2024-02-03T25:00", "it holds a date and a time as YYYY-MM-DDTHH:MM"),
        pytest.param(
            "moment", "2024-02-03 04:05", "it holds a date and a time as YYYY-MM-DDTHH:MM", marks=pytest.mark.soak
        ),
        ("range", "99", "it holds a number that its slider can reach, from 0 to 10, such as 10; it is unchanged"),
        ("range", "-1", "it holds a number that its slider can reach, from 0 to 10, such as 0;"),
        pytest.param(
            "range",
            "many",
            "it holds a number that its slider can reach, from 0 to 10, such as 5;",
            marks=pytest.mark.soak,
        ),
        ("range", "", "it holds a number that its slider can reach, from 0 to 10, such as 5;"),
        ("steps", "50", "it holds a number that its slider can reach, from 0 to 100, such as 60;"),
        pytest.param(
            "default",
            "101",
            "it holds a number that its slider can reach, from 0 to 100, such as 100;",
            marks=pytest.mark.soak,
        ),
        ("color", "reddish", "it holds a color as #rrggbb"),
        pytest.param("color", "red", "it holds a color as #rrggbb", marks=pytest.mark.soak),
        ("color", "", "it holds a color as #rrggbb"),
        ("number", "abc", "it holds a number"),
        pytest.param("number", "1,000", "it holds a number", marks=pytest.mark.soak),
        pytest.param("number", "0x10", "it holds a number", marks=pytest.mark.soak),
        ("short", "four", "it holds at most 3 characters; it is unchanged"),
        ("short", "a\\nb", "it holds a single line; it is unchanged"),
        pytest.param("short", "ab\\n", "it holds a single line", marks=pytest.mark.soak),
        pytest.param("short", "a\\rb", "it holds a single line", marks=pytest.mark.soak),
        ("area", "five!", "it holds at most 4 characters"),
        ("fixed", "new", "it is not editable"),
        pytest.param("fixed date", "2024-05-06", "it is not editable", marks=pytest.mark.soak),
        ("off", "new", "it is disabled"),
        ("shut", "new", "it accepts no text"),
        ("tick", "true", "it accepts no text"),
    ],
)
def test_a_text_that_a_field_cannot_hold_is_refused(fields: OnePage, name: str, text: str, reason: str) -> None:
    before = held(fields, name)
    seen, valid = fields.try_action(f'fill({{field}}, "{text}")', field=line(fields, name))
    assert (f": {reason}" in seen, valid, f"event {name}" in seen) == (True, False, False), seen
    assert held(fields, name) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2024-02-29"),
        ("day", "2021-01-01"),
        ("time", "23:59"),
        ("month", "2024-02"),
        ("week", "2024-W09"),
        ("moment", "2024-02-03T04:05"),
        ("range", "10"),
        ("steps", "60"),
        ("color", "#ff0000"),
        pytest.param("color", "#000000", marks=pytest.mark.soak),
        ("number", "-3.5"),
        ("count", "10"),
        ("short", "abc"),
        ("edit", "new"),
        ("area", "four"),
        ("area", ""),
        ("date", ""),
        pytest.param("number", "", marks=pytest.mark.soak),
    ],
)
def test_a_text_that_a_field_can_hold_is_written(page: OnePage, name: str, text: str) -> None:
    page.open(WRITABLE)
    seen, valid = page.try_action(f'fill({{field}}, "{text}")', field=line(page, name))
    assert (valid, f"event {name}" in seen) == (True, True), seen
    assert held(page, name) == text


@pytest.mark.parametrize("action", ['fill({field}, "new")', "click({button})"])
def test_functions_of_the_page_that_throw_are_not_used(page: OnePage, action: str) -> None:
    body = "<label>one field <input oninput='log(this.value)'></label><button onclick='log(`new`)'>press</button>"
    script = "for (const name of ['matches', 'checkVisibility']) Element.prototype[name] = () => { throw 2 }"
    page.open(f"{body}<script>{script}</script>")
    seen, valid = page.try_action(action, field=line(page, "one"), button="button 'press'")
    assert ("log: new;" in seen, valid) == (True, True), seen


def test_a_separator_reaches_the_page(page: OnePage) -> None:
    page.open("<label>area field <textarea oninput='log(this.value.codePointAt(1))'></textarea></label>")
    for separator in "\u2028\u2029\x0b\x0c\x85":
        seen, _ = page.try_action(f'fill({{field}}, "a{separator}b")', field=line(page, "area"))
        assert f" {ord(separator)};" in seen


def test_the_text_of_a_label_writes_its_field(fields: OnePage) -> None:
    seen, valid = fields.try_action('fill({label}, "05/07/2024")', label="LabelText")
    assert (": it holds a date as YYYY-MM-DD" in seen, valid) == (True, False), seen


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("one", '["a", "b"]', "it holds one option, not 2; it is unchanged"),
        ("one", '"nope"', "it has no such option"),
        ("many", '["b", "nope"]', "it has no such option"),
        ("date", '"a"', "it is not a drop-down list"),
    ],
)
def test_options_that_a_list_cannot_hold_are_refused(fields: OnePage, name: str, options: str, reason: str) -> None:
    before = held(fields, name)
    seen, valid = fields.try_action(f"select_option({{field}}, {options})", field=line(fields, name))
    assert (f": {reason}" in seen, valid) == (True, False), seen
    assert held(fields, name) == before


def test_a_list_holds_several_options(page: OnePage) -> None:
    page.open(WRITABLE)
    assert page.try_action('select_option({field}, ["b", "c"])', field=line(page, "many"))[1]
    assert held(page, "many") == "b+c"


@pytest.fixture
def fields(page: OnePage) -> OnePage:
    """A page that serves test after test, because no action on it is executed."""
    if page.body != BODY:
        page.open(BODY)
    return page
