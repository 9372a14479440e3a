"""A request that is late: the page's fault or the machine's, by the processor times of the renderers."""

from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.envs.worlds.web.driver import blame
from turnwise.envs.worlds.web.driver.blame import Times, Watch, at_fault

IDLE: Times = {7: 1.0}


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        ({7: 3.4}, "page"),
        # An endless script on a machine that gives it a tenth of a processor.
        ({7: 1.4}, "page"),
        # A new renderer, started by a navigation.
        ({7: 1.0, 8: 2.0}, "page"),
        # The page waits for something that never comes, or for a processor.
        ({7: 1.01}, "machine"),
        ({}, "machine"),
    ],
)
def test_the_renderers_decide(after: Times, fault: str) -> None:
    assert at_fault(IDLE, after) == fault


@pytest.mark.parametrize(
    ("loading", "ran", "dialogs", "fault"),
    [
        # The page in view is busy, with an animation, while the site does not send the next one.
        (["next"], 9.0, 0, "machine"),
        ([], 9.0, 0, "page"),
        ([], 1.0, 9, "page"),
        ([], 1.0, 1, "machine"),
    ],
)
def test_the_site_and_endless_dialogs_decide_too(
    loading: list[str], ran: float, dialogs: int, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blame, "renderer_times", lambda _: {7: ran})
    context = SimpleNamespace(tabs=[1], tab=SimpleNamespace(loading=loading), dialogs=dialogs)
    watch: Any = Watch.__new__(Watch)
    watch.browser, watch.before, watch.dialogs = SimpleNamespace(context=context), IDLE, 0
    assert watch.at_fault() == fault
