"""The two forms of most plans: a question with its answer, and a change by a user who logs in."""

from ..state import ExpectedState, Row
from .template import Acts, Plan, answer, log_in


def question(goal: str, acts: Acts, right: object, *wrong: Acts) -> Plan:
    """Return the plan of a question that is answered after ``acts``; ``wrong`` are whole other attempts."""
    return Plan(goal, (*acts, answer(right)), wrong, answer=str(right))


def change(goal: str, user: Row, expected: ExpectedState, acts: Acts, *wrong: Acts) -> Plan:
    """Return the plan of a change that a user makes, who logs in first.

    ``wrong`` are other acts; the acts without the last one, which completes the change, are added to them.
    """
    begin = log_in(user)
    return Plan(goal, (*begin, *acts), tuple((*begin, *each) for each in (acts[:-1], *wrong)), expected)
