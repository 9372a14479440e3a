"""Errors of Playwright, told apart by whether the driver, the agent or the page caused them."""

import asyncio

import pytest
from turnwise.envs.worlds.web.driver.elements import (
    DECIDED_TIMEOUT_MS,
    LATE_TIMEOUT_MS,
    DriverError,
    judged,
    short_error,
)
from turnwise.envs.worlds.web.driver.protocol import PlaywrightError

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


DECIDED = "Timeout 1500ms exceeded.\n  - element is not enabled\n  - retrying"
UNDECIDED = "Timeout 1500ms exceeded.\n  - waiting for element to be visible, enabled and stable"


def test_a_timeout_without_a_reason_in_the_page_is_a_failure_of_the_world() -> None:
    """The machine was too busy to look at the element: a replay on a quiet one would differ."""
    assert short_error(PlaywrightError(DECIDED)) == "it is disabled"
    with pytest.raises(TimeoutError, match="Timeout 1500ms"):
        short_error(PlaywrightError(UNDECIDED))


@pytest.mark.parametrize(("errors", "tries"), [([DECIDED], 1), ([UNDECIDED, DECIDED], 2), ([UNDECIDED, UNDECIDED], 2)])
def test_what_may_be_repeated_is_tried_until_the_page_has_decided(errors: list[str], tries: int) -> None:
    waited: list[float] = []

    async def attempt(timeout_ms: float) -> None:
        waited.append(timeout_ms)
        raise PlaywrightError(errors[len(waited) - 1])

    with pytest.raises(PlaywrightError, match=errors[-1].splitlines()[-1]):
        asyncio.run(judged(attempt))
    assert waited == [DECIDED_TIMEOUT_MS, LATE_TIMEOUT_MS][:tries]
