"""Support tickets that an agent sorts into a queue with a priority, in a strict form.

``PYTHONPATH=examples turnwise envs check tickets:Tickets-v0``
"""

import re
from random import Random

import gymnasium
from turnwise.envs import DatasetEnv

QUEUES = {
    "billing": ("I was charged twice for {item}", "the invoice of {item} has a wrong sum", "why did {item} cost more?"),
    "refund": ("I want my money back for {item}", "I sent {item} back and was not repaid", "please cancel {item}"),
    "shipping": ("{item} has not arrived", "the parcel with {item} is lost", "{item} came to my neighbor"),
    "login": ("I cannot sign in to see {item}", "the reset mail never comes, and I need {item}", "my code is refused"),
    "bug": ("the page of {item} shows an error", "the app crashes when I open {item}", "search does not find {item}"),
    "feature": (
        "could you add a dark theme for {item}?",
        "I wish {item} had an export",
        "please show {item} offline",
    ),
}
ITEMS = ("order 4711", "the blue lamp", "my yearly plan", "two tickets", "the report", "a gift card", "the headset")
PRIORITIES = {1: ("no hurry.", "whenever you have time."), 2: ("this week, please.", "I wait since Monday.")}
PRIORITIES[3] = ("this is URGENT!", "I need it today, now!")
FORM = re.compile(r"queue: ([a-z]+); priority: ([123])")


def _rows() -> list[dict[str, str | int]]:
    """Return all tickets in a fixed random order: each text with each item and six ends."""
    rows: list[dict[str, str | int]] = [
        {"ticket": f"{text.format(item=item).capitalize()} - {end}", "queue": queue, "priority": priority}
        for queue, texts in QUEUES.items()
        for text in texts
        for item in (ITEMS if "{item}" in text else ITEMS[:1])
        for priority, ends in PRIORITIES.items()
        for end in ends
    ]
    Random(0).shuffle(rows)  # noqa: S311 - reproducible, not secret
    return rows


ROWS = _rows()


def right(action: str, queue: str, priority: int) -> bool:
    """Return whether the whole answer is right: this decides success."""
    found = FORM.fullmatch(action.strip())
    return found is not None and found.groups() == (queue, str(priority))


def in_form(action: str) -> bool:
    """Return whether the answer has the form, with whatever queue."""
    return FORM.fullmatch(action.strip()) is not None


def right_queue(action: str, queue: str) -> bool:
    """Return whether the answer names the queue."""
    return f"queue: {queue};" in action


def right_priority(action: str, priority: int) -> bool:
    """Return whether the answer names the priority."""
    return f"priority: {priority}" in action


class Tickets(DatasetEnv):
    """One ticket, one answer."""

    prompt = "ticket"
    rubric = {right: 1.0, in_form: 0.3, right_queue: 0.4, right_priority: 0.3}  # noqa: RUF012

    def load(self, split: str) -> list[dict[str, str | int]]:
        """Return the first 80 tickets for evaluations, and the others for training."""
        return ROWS[:80] if split == "test" else ROWS[80:]

    def instructions(self) -> str:
        """Return the form of an answer, with an example."""
        return (
            "Sort the customer's ticket. Answer in exactly this form: queue: X; priority: N\n"
            f"X is one of {', '.join(QUEUES)}. N is 1 (can wait), 2 (soon) or 3 (now).\n"
            "For example: queue: shipping; priority: 2"
        )

    def oracle(self) -> str:
        """Return the right answer: the warm start learns it."""
        return f"queue: {self.row['queue']}; priority: {self.row['priority']}"

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return every answer in the form."""
        return [(f"queue: {queue}; priority: {priority}", 1.0) for queue in QUEUES for priority in PRIORITIES]


gymnasium.register("Tickets-v0", entry_point=Tickets)
