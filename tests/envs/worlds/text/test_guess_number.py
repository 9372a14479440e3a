"""``turnwise/GuessNumber-v0``: answers, rewards, and the sentences that count as a guess."""

import pytest
from turnwise.envs.worlds.text.guess_number import GuessNumber, GuessNumberEnv
from turnwise.envs.worlds.text.reading import plain


def puzzle(level: int = 1) -> GuessNumber:
    return GuessNumber(secret=38, low=34, high=39, at_least=34, at_most=39, level=level)


def test_an_answer_lists_the_numbers_that_are_left() -> None:
    after, reply = puzzle().turn("my guess is 36.")
    assert puzzle().opening() == "Choose one number: 34, 35, 36, 37, 38, 39."
    assert reply.observation == "Higher. Choose one number: 37, 38, 39."
    assert reply.parts == {"narrowed": pytest.approx(0.4 * 3 / 5)}
    after, reply = after.turn("39")
    assert reply.observation == "Lower. Choose one number: 37, 38."
    _, reply = after.turn("38")
    assert reply.over
    assert reply.parts == {"narrowed": pytest.approx(0.4 * 1 / 5)}


@pytest.mark.parametrize(
    ("level", "opening", "hint"),
    [
        (2, "Choose one number from 34 to 39.", "Higher. Choose one number from 37 to 39."),
        (3, "Choose one number from 34 to 39.", "Higher. Choose one number."),
    ],
)
def test_higher_levels_state_less(level: int, opening: str, hint: str) -> None:
    assert puzzle(level).opening() == opening
    assert puzzle(level).turn("36")[1].observation == hint


def test_a_guess_that_rules_nothing_out_is_valid_and_earns_nothing() -> None:
    after, _ = puzzle().turn("36")
    again, reply = after.turn("35")
    assert (again, reply.valid, reply.parts, reply.over) == (after, True, {}, False)


@pytest.mark.parametrize(
    "text", ["33", "40", "36 or 37", "36.5", "-36", "\u221236", "3\u2076", "38 or 3e1", "38, 38th", "thirty-six", ""]
)
def test_anything_but_one_number_of_the_range_is_invalid(text: str) -> None:
    after, reply = puzzle().turn(plain(text))
    assert (after, reply.valid, reply.over) == (puzzle(), False, False)
    assert reply.observation == "Write only a number. Choose one number: 34, 35, 36, 37, 38, 39."


@pytest.mark.parametrize(("level", "turns"), [(1, 3), (2, 4), (3, 5)])
def test_bisection_needs_all_turns_at_most(level: int, turns: int) -> None:
    env = GuessNumberEnv(level)
    assert env.max_turns == turns
    assert f"in {turns} turns" in env.instructions()
