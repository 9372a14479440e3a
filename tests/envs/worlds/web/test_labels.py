"""A label and its control are one element of the observation, unless the label alone can be clicked."""

import pytest
from turnwise.tests.envs.worlds.web.one_page import OnePage

HIDDEN = "position: absolute; opacity: 0; z-index: -1"


def clicks(page: OnePage) -> list[str]:
    return [action for action, _ in page.valid_actions() if action.startswith("click(")]


@pytest.mark.parametrize(
    "body",
    [
        "<label><input type=checkbox> a</label>",
        "<input id=one type=checkbox><label for=one>a</label>",
        "<label>a <input type=checkbox></label>",
        f"<input id=one type=checkbox style='{HIDDEN}'><label for=one>a</label>",
    ],
)
def test_a_checkbox_and_its_label_are_one_click(page: OnePage, body: str) -> None:
    page.open(body)
    assert clicks(page) == [f"click({page.number('checkbox')})"]
    assert "checkbox 'a' focused checked" in page.try_action("click({box})", box="checkbox")[0]


@pytest.mark.parametrize("style", ["display: none", "position: absolute; width: 1px; height: 1px; clip: rect(0,0,0,0)"])
def test_the_label_of_a_hidden_checkbox_can_be_clicked(page: OnePage, style: str) -> None:
    page.open(f"<input id=one type=checkbox style='{style}' onchange=log('ticked')><label for=one>a</label>")
    click = clicks(page)[-1]
    page.step(click)
    assert "ticked" in str(page.step("noop()")[0])
