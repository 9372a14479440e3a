"""Every action works in a closed shadow root, which no selector of Playwright pierces.

CI tries all of them in a closed root and some in the others; the soak has all.
"""

import pytest
from turnwise.tests.envs.worlds.web.one_page import OnePage

INNER = (
    "<button>inner button</button><label>inner field <input value=old></label>"
    "<label>inner date <input type=date value=2020-01-02></label>"
    "<select aria-label='inner list'><option>p<option>q</select>"
    "<div draggable=true role=button aria-label='inner source' style='width: 60px; height: 20px'>s</div>"
    "<div role=button aria-label='inner target' style='width: 60px; height: 20px'>t</div>"
)
BODY = f"""<div id=host></div>
<div draggable=true role=button aria-label='outer source' id=out style='width: 60px; height: 20px'>s</div><script>
const nested = document.createElement('div');
const root = MODE === 'nested'
  ? host.attachShadow({{mode: 'closed'}}).appendChild(nested).attachShadow({{mode: 'open'}})
  : host.attachShadow({{mode: MODE}});
root.innerHTML = `{INNER}`;
const [button, field, date, list, source, target] = root.querySelectorAll('button, input, select, div');
for (const kind of ['click', 'dblclick', 'auxclick', 'mouseenter']) button.addEventListener(kind, () => log(kind));
field.addEventListener('input', () => log('field=' + field.value));
field.addEventListener('keydown', event => log('key=' + event.key));
date.addEventListener('input', () => log('date=' + date.value));
list.addEventListener('change', () => log('list=' + list.value));
for (const one of [source, out]) one.ondragstart = event => event.dataTransfer.setData('text', 'x');
target.ondragover = event => event.preventDefault();
target.ondrop = event => {{ event.preventDefault(); log('dropped') }};
</script>"""


ACTIONS = [
    ("click({inner_button})", "click;"),
    ('click({inner_button}, "middle")', "auxclick;"),
    ("dblclick({inner_button})", "dblclick;"),
    ("hover({inner_button})", "mouseenter;"),
    ('fill({inner_field}, "new")', "field=new;"),
    ('fill({inner_field}, "")', "field=;"),
    ('fill({inner_date}, "2024-05-06")', "date=2024-05-06;"),
    ('fill({inner_date}, "05/06/2024")', "it holds a date as YYYY-MM-DD"),
    ('press({inner_field}, "End")', "key=End;"),
    ('select_option({inner_list}, "q")', "list=q;"),
    ('select_option({inner_list}, "z")', "it has no such option"),
    ("drag_and_drop({inner_source}, {inner_target})", "dropped;"),
    ("drag_and_drop({outer_source}, {inner_target})", "dropped;"),
]
EVERYWHERE = ("click({inner_button})", 'fill({inner_field}, "new")', "drag_and_drop({outer_source}, {inner_target})")
"""Actions that CI tries in each kind of root: by the position, by the element, and across roots."""


@pytest.mark.parametrize(
    ("mode", "action", "effect"),
    [
        pytest.param(*case, marks=() if case[0] == "closed" or case[1] in EVERYWHERE else pytest.mark.soak)
        for case in ((mode, *each) for mode in ("open", "closed", "nested") for each in ACTIONS)
    ],
)
def test_an_action_works_in_a_shadow_root(page: OnePage, mode: str, action: str, effect: str) -> None:
    roles = {"inner_button": "button", "inner_field": "textbox", "inner_date": "Date", "inner_list": "combobox"}
    page.open(f"<script>const MODE = '{mode}'</script>{BODY}")
    names = {
        name: f"{roles.get(name, 'button')} '{name.replace('_', ' ')}"
        for name in ("inner_button", "inner_field", "inner_date", "inner_list", "inner_source", "inner_target")
    }
    seen, valid = page.try_action(action, **names, outer_source="button 'outer source")
    assert effect in seen, seen
    assert valid == effect.endswith(";")
