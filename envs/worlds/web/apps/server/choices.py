"""The choices of the forms and the names of things; the pages, the worlds and the tasks share them.

A mapping is from the stored value to the displayed text.
"""

from collections.abc import Iterable
from typing import Any, Protocol

CONTACTS = {"email": "By e-mail", "phone": "By phone", "none": "Not at all"}
DELIVERY = {"standard": ("Standard delivery", 400), "express": ("Express delivery", 1200), "pickup": ("Pickup", 0)}
"""From the stored value to the displayed text and the cost in cents."""
RETURN_REASONS = ("Too small", "Too large", "Damaged", "Wrong product", "No longer needed")
REFUNDS = {"card": "To my card", "voucher": "As a voucher"}

PRIORITIES = ("low", "normal", "high", "urgent")
DIGESTS = {"daily": "Daily", "weekly": "Weekly", "never": "Never"}

REPORT_REASONS = ("Spam", "Rude", "Off topic", "Wrong board", "Copied without permission")
NOTIFICATIONS = {"all": "Every change", "own": "Changes to my articles", "none": "Nothing"}


class Row(Protocol):
    """A row of a table, of a server's database or of a task's world."""

    def keys(self) -> Iterable[str]:
        """Return the names of the columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of a column."""


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def money(cents: int) -> str:
    """Return an amount as displayed: ``$12.50``."""
    return f"${cents // 100}.{cents % 100:02}"


def line_name(line: Row) -> str:
    """Return the name of a line of a cart or an order: ``Brass lamp (red, M)``."""
    variant = ", ".join(part for part in (line["color"], line["size"]) if part)
    return f"{line['name']} ({variant})" if variant else str(line["name"])


def issue_name(issue: Row) -> str:
    """Return the name of an issue in links: ``#12 Crash in the export``."""
    return f"#{issue['id']} {issue['title']}"
