"""A request that is late: the page's fault or the machine's, by the processor times of the renderers."""

import pytest
from turnwise.envs.web.driver.blame import Times, at_fault

IDLE: Times = {7: (1.0, 0.1)}


@pytest.mark.parametrize(
    ("after", "browser_answers", "fault"),
    [
        ({7: (3.4, 0.1)}, True, "page"),
        # An endless script on a machine that gives it a tenth of a processor.
        ({7: (1.4, 4.7)}, True, "page"),
        ({7: (1.4, 4.7)}, False, "page"),
        # A new renderer, started by a navigation.
        ({7: (1.0, 0.1), 8: (2.0, 0.1)}, True, "page"),
        # The page waits for something that never comes.
        ({7: (1.01, 0.1)}, True, "page"),
        ({7: (1.01, 4.0)}, True, "machine"),
        ({7: (1.01, 0.1)}, False, "machine"),
        ({}, False, "machine"),
        ({}, True, "page"),
    ],
)
def test_the_renderers_decide(after: Times, browser_answers: bool, fault: str) -> None:
    assert at_fault(IDLE, after, 5.0, browser_answers) == fault
