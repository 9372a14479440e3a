"""The acts of which the solutions of templates consist, and the phrases that goals share."""

from ...actions import ANSWER
from ..state import Row
from .template import Act, Acts


def link(name: str) -> Act:
    """Follow a link."""
    return Act("click", "link", name)


def button(name: str) -> Act:
    """Press a button."""
    return Act("click", "button", name)


def fill(name: str, value: object) -> Act:
    """Replace the text of a field."""
    return Act("fill", "textbox", name, str(value))


def search_for(value: str) -> Act:
    """Fill in the search field."""
    return Act("fill", "searchbox", "Search for", value)


def choose(name: str, option: object) -> Act:
    """Select an option of a drop-down list by its text."""
    return Act("select_option", "combobox", name, str(option))


def radio(name: str) -> Act:
    """Select a radio button."""
    return Act("click", "radio", name)


def tick(name: str) -> Act:
    """Toggle a checkbox."""
    return Act("click", "checkbox", name)


def answer(value: object) -> Act:
    """Answer, which ends the episode."""
    return Act(ANSWER, value=str(value))


def log_in(user: Row) -> Acts:
    """Log in through the menu."""
    return (
        link("Log in"),
        fill("User name", user["login"]),
        fill("Password", user["password"]),
        button("Log in"),
    )


def as_user(user: Row) -> str:
    """Return the phrase with which a goal names the user to log in as."""
    return f"Log in as {user['login']} (password {user['password']})"
