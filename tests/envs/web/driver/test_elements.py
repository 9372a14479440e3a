"""Errors of Playwright, told apart by whether the driver, the agent or the page caused them."""

import pytest
from turnwise.envs.web.driver.elements import DriverError, short_error
from turnwise.envs.web.driver.protocol import PlaywrightError

COVERED = (
    'Locator.click: Timeout 400ms exceeded.\nCall log:\n  - <p class="SyntaxError">{}</p> intercepts pointer events'
)


@pytest.mark.parametrize("text", ["SyntaxError", "x: expected y", "is not a function", "Invalid parameters"])
def test_text_of_the_agent_or_the_page_is_not_an_error_of_the_driver(text: str) -> None:
    assert short_error(PlaywrightError(f'Keyboard.press: Unknown key: "{text}"')).startswith("Keyboard.press: Unknown")
    assert short_error(PlaywrightError(COVERED.format(text))) == "another element covers it"


@pytest.mark.parametrize(
    "message",
    [
        "Locator.fill: value: expected string, got number",
        'Locator.click: Error: strict mode violation: locator("p") resolved to 2 elements',
        "Input.dispatchMouseEvent: Invalid parameters",
    ],
)
def test_a_wrong_call_is_an_error_of_the_driver(message: str) -> None:
    with pytest.raises(DriverError):
        short_error(PlaywrightError(message))
