"""``turnwise/TwentyQuestions-v0``: guesses, questions and rewards."""

import pytest
from turnwise.envs.worlds.text.twenty_questions import HAVE, PROPERTIES, THINGS, TwentyQuestions

LIST = ("owl", "bus", "apple", "horse", "key")


def puzzle(level: int = 1) -> TwentyQuestions:
    return TwentyQuestions(LIST, "horse", LIST, level)


def test_properties_are_those_that_differ_in_the_list() -> None:
    assert puzzle().opening() == (
        "Properties: animal, food, wings, wheels, big. Which thing is it: owl, bus, apple, horse, key?"
    )


def test_questions_and_guesses_rule_things_out() -> None:
    after, reply = puzzle().turn("is it big?")
    assert reply.observation == "Big: yes. Which thing is it: bus, horse?"
    assert reply.parts == {"narrowed": pytest.approx(0.4 * 3 / 4)}
    after, reply = after.turn("a bus")
    assert reply.observation == "No, not the bus. Which thing is it: horse?"
    assert reply.parts == {"narrowed": pytest.approx(0.4 * 1 / 4)}
    _, reply = after.turn("horses")
    assert (reply.over, dict(reply.parts)) == (True, {})


def test_the_highest_level_does_not_list_the_things_that_are_left() -> None:
    _, reply = puzzle(3).turn("can it fly?")
    assert reply.observation == "Wings: no. Which thing is it?"


@pytest.mark.parametrize("text", ["owl or bus", "is the owl big?", "whale", "is it yellow?", "trucks", ""])
def test_anything_but_one_name_is_invalid(text: str) -> None:
    after, reply = puzzle().turn(text)
    assert (after, reply.valid, reply.over) == (puzzle(), False, False)


def test_names_are_unambiguous() -> None:
    forms = [form for spelled in PROPERTIES.values() for form in spelled]
    assert len(set(forms)) == len(forms)
    assert not {*forms} & {name for thing in THINGS for name in (thing, f"{thing}s")}
    assert HAVE.keys() == PROPERTIES.keys()
    assert {thing for things in HAVE.values() for thing in things} <= {*THINGS}
