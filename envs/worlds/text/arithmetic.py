"""Find an arithmetic expression in a sentence and compute it exactly."""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

from .reading import SCALES

MAX_OPERATIONS = 8
MAX_DIGITS = 15

_SIGNS = str.maketrans(
    dict.fromkeys("\u00d7\u00b7\u22c5\u2219\u2022\u2217\u2715\u2716", "*") | dict.fromkeys("\u00f7\u2215\u2044", "/")
)
_WORDS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/"}
_WORD = re.compile(rf"(?<=[0-9)]) ({'|'.join(_WORDS)}) (?=[0-9(-])")
_NEGATIVE = re.compile(r"\b(?:minus|negative) (?=[0-9(])")
_DASH = re.compile(r"(?<=[a-z][a-z]) - (?=[0-9(])")
"""A dash of the sentence, which is not a minus sign."""
_VARIABLE = re.compile(r"\b([a-z]) - ?(?=[0-9(])")
_LABEL = re.compile(r"\b(?:step|question|problem|turn|attempt|part|line) [0-9]+ - ")
_LATEX = re.compile(r"\\[()\[\]]|\$")
_TIMES = re.compile(r"(?<=[0-9)])\s*x\s*(?=[0-9(])")
_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = r"[0-9]\w*(?:[.,( ][0-9]\w*)*"
"""A number with all that is joined to it, such as ``10 000`` or ``3\u00b2``: ``compute`` refuses it as a whole."""
_EXPRESSION = re.compile(
    r"(?<![\w.+/^%\u221a])(?<![0-9)][-*])(?<![0-9)] [-*] )"
    rf"(?:[-+/^%\u221a(]\s*)*{_NUMBER}(?:[\s)]*[-+*/^%][-+*/^%\u221a\s(]*{_NUMBER}(?!\w))+(?:\s*\))*%?"
)
_ENGLISH = r"[ai]\b[ '\u2019][a-z]"
"""``a`` or ``I`` as a word of a sentence, no variable."""
_BEFORE = re.compile(
    rf"""
    (?: [a-z_](?:[*+/^%-]|[ ][*+/^%][ ]) | [a-z][ ]\+
      | \b(?:{"|".join([*_WORDS, "over", "mod", "modulo", "double", "twice", "triple", "half"])})[ ]
      | (?:^|\b(?:multipl|divid|increas|decreas|reduc|rais|lower|scal)[a-z]*[ ][^.:;!?\n]*)[0-9.]+[ ](?:by|of)[ ]
      | (?:\b(?:lots|percent|half|third|quarter)|%)[ ]of[ ] | \b(?:round|floor)\(*
      | \b(?:sqrt|root|log|ln|exp|sin|cos|tan|abs|ceil|factorial)(?:[ ]of)?[ ]?\(* )$
    """,
    re.VERBOSE,
)
"""Text before an expression that is a part of it."""
_AFTER = re.compile(
    rf"""
    [*+/^%-][a-z_(] | [ ][*+/^%][ ][a-z_(] | [ ]-[ ](?!{_ENGLISH})[a-z]\b
      | [ ]over[ ](?!{_ENGLISH}|(?:again|and|here|now|there|to)\b)[0-9a-z(]
      | [ ](?:{"|".join([*_WORDS, *SCALES, "mod", "modulo", "percent"])})\b
    """,
    re.VERBOSE,
)
"""Text after an expression that is a part of it."""
_UNKNOWN = re.compile(r"[^-+*/().0-9\s]")
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class NotComputable(Exception):
    """The expression has no value: it is malformed, too long, or divides by zero."""


def expression(text: str) -> str:
    """Return the first expression with an operator in a plain text, with ``*`` and ``/`` as its signs; else nothing.

    It is never a part of a longer one: an expression with other signs, or with words that belong to it, is returned
    with them, and ``compute`` refuses it.
    """
    signs = _COMMA.sub("", _TIMES.sub(" * ", _LATEX.sub(" ", text).translate(_SIGNS)))
    signs = _WORD.sub(lambda word: f" {_WORDS[word[1]]} ", _LABEL.sub(" ", signs))
    signs = _VARIABLE.sub(r"\1-", _DASH.sub(": ", _NEGATIVE.sub("-", signs)))
    found = _EXPRESSION.search(signs)
    if found is None:
        return ""
    part, before, after = found.group(), _BEFORE.search(signs[: found.start()]), _AFTER.match(signs, found.end())
    if before or after:
        return f"{before[0] if before else ''}{part}{after[0] if after else ''}".strip()
    return _balanced(part)


def _balanced(found: str) -> str:
    """Return an expression without the parentheses of the sentence around it."""
    while found.startswith(("(", " ")) and found.count("(") > found.count(")"):
        found = found[1:]
    while found.endswith((")", " ")) and found.count(")") > found.count("("):
        found = found[:-1]
    return found.strip().replace("\n", " ")


def compute(text: str) -> Fraction:
    """Return the exact value of an expression of ``+ - * /``, parentheses and numbers.

    Raises:
        NotComputable: the expression is malformed, too long, or divides by zero.
    """
    digits = re.findall(r"[0-9]+", text)
    if len(re.findall(r"[-+*/(]", text)) > 2 * MAX_OPERATIONS or any(len(each) > MAX_DIGITS for each in digits):
        raise NotComputable("too long")
    if _UNKNOWN.search(text):
        raise NotComputable("malformed")
    try:
        # Python refuses numbers such as 007; a person does not.
        return _value(ast.parse(re.sub(r"(?<![0-9.])0+(?=[0-9])", "", text), mode="eval").body)
    except ZeroDivisionError:
        raise NotComputable("division by zero") from None
    except (SyntaxError, ValueError):
        raise NotComputable("malformed") from None


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
    raise NotComputable("malformed")


def shown(value: Fraction) -> str:
    """Return a value as a person writes it: whole, or rounded to two decimals."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.2f}"
