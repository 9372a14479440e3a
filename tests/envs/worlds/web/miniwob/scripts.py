"""Scripts for twenty MiniWoB tasks: acts on elements, addressed by role, name and position.

A script is made from the nodes of one side and can be played on either. ``wrong`` requests a script that must fail.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Nodes = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Act:
    """One act; ``text`` is the argument of ``fill`` or ``select_option``."""

    verb: str
    role: str
    name: str
    nth: int
    text: str = ""

    def find(self, nodes: Nodes) -> Any:
        """Return the id of its element."""
        return [node["id"] for node in nodes if (node["role"], node["name"]) == (self.role, self.name)][self.nth]


Script = list[Act]


def act(nodes: Nodes, node: Mapping[str, Any], verb: str = "click", text: str = "") -> Act:
    """Return an act on a node."""
    alike = [one["id"] for one in nodes if (one["role"], one["name"]) == (node["role"], node["name"])]
    return Act(verb, node["role"], node["name"], alike.index(node["id"]), text)


def of(nodes: Nodes, *roles: str) -> list[Mapping[str, Any]]:
    """Return the nodes of these roles that have an id."""
    return [node for node in nodes if node["role"] in roles and "id" in node]


def named(nodes: Nodes, roles: Sequence[str], name: str, wrong: bool) -> Act:
    """Return a click on the node with this name in any case, or on another one if ``wrong``."""
    fit = [node for node in of(nodes, *roles) if (node["name"].lower() == name.lower()) != wrong]
    return act(nodes, fit[0] if fit else of(nodes, *roles)[0])


def quoted(goal: str) -> list[str]:
    """Return the quoted strings."""
    return re.findall(r'"(.*?)"', goal)


def submit(nodes: Nodes) -> Act:
    """Return a click on the last button."""
    return act(nodes, of(nodes, "button")[-1])


def fields(nodes: Nodes, texts: Sequence[str], wrong: bool) -> Script:
    """Return acts that fill each field and submit."""
    boxes = of(nodes, "textbox")
    filled = [act(nodes, box, "fill", text + "x" * wrong) for box, text in zip(boxes, texts, strict=False)]
    return [*filled, submit(nodes)]


def checkboxes(goal: str, nodes: Nodes, wrong: bool) -> Script:
    requested = re.sub(r"^Select | and click Submit\.$", "", goal).split(", ")
    return [*(act(nodes, one) for one in of(nodes, "checkbox") if (one["name"] in requested) != wrong), submit(nodes)]


def sequence(goal: str, nodes: Nodes, wrong: bool) -> Script:
    both = [named(nodes, ["button"], "one", False), named(nodes, ["button"], "two", False)]
    return both[::-1] if wrong else both


def arithmetic(goal: str, nodes: Nodes, wrong: bool) -> Script:
    text = " ".join(str(node["name"]) for node in nodes)
    one, sign, other = re.search(r"(\d+) ([-+x]) (\d+)", text).groups()  # type: ignore[union-attr]
    value = {"+": int(one) + int(other), "-": int(one) - int(other), "x": int(one) * int(other)}[sign]
    return fields(nodes, [str(value)], wrong)


def date(goal: str, nodes: Nodes, wrong: bool) -> Script:
    month, day, year = re.search(r"(\d+)/(\d+)/(\d+)", goal).groups()  # type: ignore[union-attr]
    (box,) = of(nodes, "Date")
    return [act(nodes, box, "fill", f"{year}-{month}-{'01' if wrong and day != '01' else day}"), submit(nodes)]


def option(goal: str, nodes: Nodes, wrong: bool) -> Script:
    requested = re.sub(r"^Select | and click Submit\.$", "", goal)
    return [named(nodes, ["radio"], requested, wrong), submit(nodes)]


def choose(goal: str, nodes: Nodes, wrong: bool) -> Script:
    requested = re.sub(r"^Select | from the list and click Submit\.$", "", goal)
    (box,) = of(nodes, "combobox")
    offered = [str(node["name"]) for node in of(nodes, "option", "menuitem")]
    other = [name for name in offered if name != requested]
    return [act(nodes, box, "select_option", other[0] if wrong and other else requested), submit(nodes)]


def widget(goal: str, nodes: Nodes, wrong: bool) -> Script:
    roles = {"radio": "radio", "checkbox": "checkbox", "text": "textbox", "textarea": "textbox", "button": "button"}
    requested = roles[quoted(goal)[0]]
    fit = [node for node in of(nodes, *roles.values()) if (node["role"] == requested) != wrong]
    return [act(nodes, (fit or of(nodes, *roles.values()))[-1])]


def cased(goal: str, nodes: Nodes, wrong: bool) -> Script:
    requested = quoted(goal)[0]
    return fields(nodes, [requested.upper() if "upper" in goal else requested.lower()], wrong)


def pick(*roles: str) -> Callable[[str, Nodes, bool], Script]:
    """Return a script that clicks the node that the goal quotes."""
    return lambda goal, nodes, wrong: [named(nodes, roles, quoted(goal)[0], wrong)]


SCRIPTS: dict[str, Callable[[str, Nodes, bool], Script]] = {
    "click-test": lambda goal, nodes, wrong: [] if wrong else [submit(nodes)],
    "click-test-2": lambda goal, nodes, wrong: [named(nodes, ["button"], "one", wrong)],
    "click-button": pick("button"),
    "click-button-sequence": sequence,
    "click-tab": lambda goal, nodes, wrong: [named(nodes, ["link"], goal[len("Click on ") : -1], wrong)],
    "click-dialog": lambda goal, nodes, wrong: [] if wrong else [act(nodes, of(nodes, "button")[0])],
    "click-dialog-2": lambda goal, nodes, wrong: [
        named(nodes, ["button"], {"x": "Close"}.get(quoted(goal)[0], quoted(goal)[0]), wrong)
    ],
    "click-checkboxes": checkboxes,
    "click-option": option,
    "click-widget": widget,
    "choose-list": choose,
    "enter-date": date,
    "enter-password": lambda goal, nodes, wrong: fields(nodes, quoted(goal) * 2, wrong),
    "enter-text": lambda goal, nodes, wrong: fields(nodes, quoted(goal), wrong),
    "enter-text-2": cased,
    "enter-text-dynamic": lambda goal, nodes, wrong: fields(nodes, quoted(goal), wrong),
    "focus-text": lambda goal, nodes, wrong: [] if wrong else [act(nodes, of(nodes, "textbox")[0])],
    "focus-text-2": lambda goal, nodes, wrong: [act(nodes, of(nodes, "textbox")[(int(goal[15]) - 1 + wrong) % 3])],
    "login-user": lambda goal, nodes, wrong: fields(nodes, quoted(goal), wrong),
    "simple-arithmetic": arithmetic,
}
