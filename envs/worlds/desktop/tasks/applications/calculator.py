"""Tasks with the calculator."""

from .....draws import NoInstance, SeededDraws
from ..expected import Expected
from ..template import Acts, DesktopRegistry, Plan, click, done
from .documents import ITEMS

registry = DesktopRegistry("calculator")
START = ("galculator",)


def keys(expression: str) -> Acts:
    """Click the keys of an expression; typed text loses a digit that repeats while its key still flashes."""
    return tuple(click("button", key) for key in expression)


def _shown(goal: str, value: float, expression: str, wrong: str) -> Plan:
    computed = keys(f"{expression}=")
    return Plan(
        goal,
        START,
        {},
        Expected({}, display=value),
        computed,
        (keys(expression), keys(f"{wrong}="), (*computed, click("button", "AC"))),
    )


@registry.template()
def show_product(draws: SeededDraws) -> Plan:
    """Multiply."""
    one, other = draws.integer(12, 999), draws.integer(12, 999)
    return _shown(
        f"Multiply {one} by {other} with the calculator and leave the result on its display.",
        one * other,
        f"{one}*{other}",
        f"{one}+{other}",
    )


@registry.template()
def show_total(draws: SeededDraws) -> Plan:
    """Compute what a purchase costs."""
    item, count = draws.choice(ITEMS), draws.integer(3, 24)
    price, fee = draws.integer(11, 99), draws.integer(101, 999)
    total = count * price + fee
    return _shown(
        f"Compute what {count} {item} cost at {price} each, plus {fee} for delivery. Leave the total on the "
        "calculator's display.",
        total,
        f"{count}*{price}+{fee}",
        f"{count}*{price}",
    )


@registry.template()
def average_answer(draws: SeededDraws) -> Plan:
    """Compute an average and answer with it."""
    one, other = draws.integer(100, 999), draws.integer(100, 999)
    if (one + other) % 2 == 0:
        raise NoInstance
    average, computed = (one + other) / 2, keys(f"({one}+{other})/2=")
    return Plan(
        f"What is the average of {one} and {other}? Use the calculator and answer with the exact number.",
        START,
        {},
        Expected({}, answer=str(average)),
        (*computed, done(average)),
        ((*computed, done(one + other)), computed, (*computed, done(int(average)))),
    )
