"""``turnwise/Calculator-v0``: expressions in sentences, exact results, rewards."""

import random
from fractions import Fraction

import pytest
from turnwise.envs.worlds.text.arithmetic import NotComputable, compute, expression, shown
from turnwise.envs.worlds.text.calculator import Calculator, CalculatorEnv
from turnwise.envs.worlds.text.reading import plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("347 + 589", "347 + 589"),
        ("347+589 = 936", "347+589"),
        ("The sum is 347 + 589.", "347 + 589"),
        ("```\n24 * 13\n```", "24 * 13"),
        ("24 \u00d7 13", "24 * 13"),
        ("24 x 13 + 7", "24 * 13 + 7"),
        ("\\(24 \u2212 13\\)", "24 - 13"),
        ("the sum (24 + 13)", "(24 + 13)"),
        ("(it is 24 + 13)", "24 + 13"),
        ("$24 + $13", "24 +  13"),
        ("(24 + 1) * 13", "(24 + 1) * 13"),
        ("1,200 + 34", "1200 + 34"),
        ("1.5 * 4", "1.5 * 4"),
        ("-5 + 3", "-5 + 3"),
        ("- 24 * 13", "- 24 * 13"),
        ("the answer is -5", ""),
        ("936", ""),
        ("The answer is 11. 347 - 589", "347 - 589"),
        ("347 + 589. 936", "347 + 589"),
        ("2 ** 9", "2 ** 9"),
        ("11\u00d712\u201413", "11*12-13"),
        ("11\u00b712 + 13", "11*12 + 13"),
        ("347 + 589\n936", "347 + 589"),
        ("It is **347 + 589**, so 936", "347 + 589"),
        ("((24 + 13) * 2) - 1 = 73", "((24 + 13) * 2) - 1"),
        ("1. 936", ""),
        ("11 times 12 + 13", "11 * 12 + 13"),
        ("(11 plus 12) multiplied by 13", "(11 + 12) * 13"),
        ("12 + 13 minus 2", "12 + 13 - 2"),
        ("24 divided by -3", "24 / -3"),
        ("minus 5 + 3", "-5 + 3"),
        ("negative 5 + 3", "-5 + 3"),
        ("the answer - 24 * 13", "24 * 13"),
        ("it is\u201424 * 13", "24 * 13"),
        ("24 * 13 - that is it", "24 * 13"),
        ("**24 * 13** is it", "24 * 13"),
        ("is *24 * 13*, or so", "24 * 13"),
        ("Step 1 - 24 * 13", "24 * 13"),
        ("y = 24 * 13", "24 * 13"),
        ("print(24 * 13)", "24 * 13"),
        ("((24 * 13) + 2", "(24 * 13) + 2"),
        ("24 * 13 apples", "24 * 13"),
        ("(3 + 5) * 3 \u2014 I used every number", "(3 + 5) * 3"),
        ("(3+5)*3 \u2013 a product", "(3+5)*3"),
        ("(3+5)*3\u2014I used them all", "(3+5)*3"),
        ("3 + 4 - I hope", "3 + 4"),
        ("3 + 4 - I'm sure", "3 + 4"),
        ("3 * 8 - a product", "3 * 8"),
        ("I can make 24 by (3+5)*3", "(3+5)*3"),
        ("We reach 24 by 3 * 8", "3 * 8"),
        ("Round 3 + 4", "3 + 4"),
        ("3*4+5 over and out", "3*4+5"),
        ("3 + 4, over to you", "3 + 4"),
        ("a + b", ""),
        ("", ""),
    ],
)
def test_the_first_expression_of_a_sentence_is_found(text: str, expected: str) -> None:
    assert expression(plain(text)) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("7 / 2", Fraction(7, 2)),
        ("-5 + 3", -2),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("007 + 1", 8),
        ("0 + 0", 0),
        ("0.05 * 100", 5),
        ("10 - 2 - 3", 5),
    ],
)
def test_values_are_exact(text: str, value: Fraction) -> None:
    assert compute(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("2 ** 9", "7 // 2", "1 / 0", "1 / (2 - 2)", "(1 + 2", "1 + ", "1 +* 2", "2 (3)", "1 2", ""),
        *("+".join("1" * 40), "9" * 16 + " + 1", "(" * 200 + "1" + ")" * 200 + " + 1"),
    ],
)
def test_anything_else_is_not_computable(text: str) -> None:
    with pytest.raises(NotComputable):
        compute(text)


def test_values_are_shown_as_a_person_writes_them() -> None:
    assert [shown(Fraction(*each)) for each in ((936,), (-2,), (7, 2), (1, 3))] == ["936", "-2", "3.50", "0.33"]


PARTS = [
    *("10 000 + 5", "5 + 10 000", "2 + 3,45", "2 * 1e3", "2 * 3\u00b2", "2 + 3 * 4\u00b2", "2 * 3^2", "2^3 + 1 * 4"),
    *(
        "50% + 3 * 2",
        "5 + 3%",
        "\u221a4 * 4",
        "5! + 3 * 2",
        "2 * 3.4.5",
        "2 * 3(4)",
        "\u00bd + 3 * 2",
        "12, 936 or 1e3",
        "a + 3 * 2 + 5",
        "\u00bd+3*2+5",
    ),
    *("936 or 1234567890123456", "93\u2076", "936 or 12,34"),
    *("x-3*2", "x - 3*2", "x -3*2", "n - 3*2+1", "price-3*2", "x*3+2", "x * 3 + 2", "x/3+2", "x^3*2", "4 - x*3*2"),
    *("3*2-x", "3*2 - x", "3*2+x", "3 * 2 * y", "3*2/total", "3 + 2 + the rest", "3*2^n", "3*2(4"),
    *("half of 12 + 13", "double 12 + 13", "20 percent of 50 + 3", "11 by 12 + 13", "11 lots of 12 + 13", "sqrt 4 * 2"),
    *("sqrt(3*12)", "log(3*12)", "12 mod 5 + 1", "12 + 13 squared", "12 + 13 percent", "12 * 13 thousand"),
    *("3*2 - a", "3*2 - x is it", "3*2\u2013x", "multiply 24 by (3+5)*3", "to divide 936 by 3 + 5", "round(3 + 4)"),
    *("3*2 over x", "3*2 over 5", "3*2 over total", "(3+5) over (3*2)"),
    *("x times 12 + 13", "12 + 13 times x", "936 thousand", "x + 936", "936 * x", "936/x", "9 hundred 36"),
]
"""Texts of which only a part is a readable expression or number."""


def puzzle() -> Calculator:
    return Calculator("What is 347 + 589?", "347 + 589")


def test_the_answer_after_its_expression() -> None:
    after, reply = puzzle().turn("347 + 589 = 900")
    assert (reply.observation, dict(reply.parts)) == ("347 + 589 = 936. What is 347 + 589?", {"computed": 0.3})
    again, reply = after.turn("589 + 347")
    assert (again, dict(reply.parts)) == (after, {})
    _, reply = again.turn("the answer is 936.")
    assert (reply.over, dict(reply.parts)) == (True, {})


def test_a_wrong_answer_costs_and_the_question_is_repeated() -> None:
    after, reply = puzzle().turn("it is 900")
    assert (after, dict(reply.parts), reply.over) == (puzzle(), {"wrong": -0.1}, False)
    assert reply.observation == "900 is wrong. What is 347 + 589?"


def test_another_expression_is_computed_without_a_reward() -> None:
    _, reply = puzzle().turn("347 * 589")
    assert (reply.observation, dict(reply.parts)) == ("347 * 589 = 204383. What is 347 + 589?", {})


@pytest.mark.parametrize("text", ["1 / 0", "7 +* 8", "two numbers: 5 and 6", "the sum", *PARTS])
def test_other_texts_are_invalid(text: str) -> None:
    after, reply = puzzle().turn(plain(text))
    assert (after, reply.valid, reply.over) == (puzzle(), False, False)
    assert str(reply.observation).endswith("What is 347 + 589?")


def test_a_minus_sign_of_typography_is_no_dash() -> None:
    _, reply = puzzle().turn(plain("\u2212936"))
    assert (reply.over, dict(reply.parts)) == (False, {"wrong": -0.1})


def test_the_actions_do_not_show_the_solution() -> None:
    asked = Calculator("", "11 * 12 - 13")
    assert len([each for each in asked.actions() if expression(each)]) == 9
    assert {"11 * 12 - 13", "11 - 12 * 13", "11 + 12 + 13", "11", "12", "13"} <= set(asked.actions())
    assert asked.turn("11 + 12")[0].actions() == [*asked.actions(), "23"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_random_actions_seldom_succeed(level: int) -> None:
    env, picks, successes = CalculatorEnv(level), random.Random(0), 0
    for seed in range(300):
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, over, _, info = env.step(picks.choice(env.valid_actions())[0])
        successes += info["success"]
    assert 0 < successes < 120
