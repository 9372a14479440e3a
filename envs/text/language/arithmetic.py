"""Find an arithmetic expression in a sentence and compute it exactly."""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

MAX_OPERATIONS = 8
MAX_DIGITS = 15

_SIGNS = str.maketrans(
    dict.fromkeys("\u00d7\u00b7\u22c5\u2219\u2022\u2217\u2715\u2716", "*") | dict.fromkeys("\u00f7\u2215\u2044", "/")
)
_LATEX = re.compile(r"\\[()\[\]]|\$")
_TIMES = re.compile(r"(?<=[0-9)])\s*x\s*(?=[0-9(])")
_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = r"[0-9]\w*(?:[.,( ][0-9]\w*)*"
"""A number with all that is joined to it, such as ``10 000`` or ``3\u00b2``: ``compute`` refuses it as a whole."""
_EXPRESSION = re.compile(
    r"(?<![\w.+/^%\u221a])(?<![0-9)][-*])(?<![0-9)] [-*] )"
    rf"(?:[-+/^%\u221a(]\s*)*{_NUMBER}(?:[\s)]*[-+*/^%][-+*/^%\u221a\s(]*{_NUMBER}(?!\w))+(?:\s*\))*%?"
)
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

    It is never a part of a longer one: an expression with other signs is returned whole, and ``compute`` refuses it.
    """
    signs = _COMMA.sub("", _TIMES.sub(" * ", _LATEX.sub(" ", text).translate(_SIGNS)))
    found = _EXPRESSION.search(signs)
    return _balanced(found.group()) if found else ""


def _balanced(found: str) -> str:
    """Return an expression without the parentheses of the sentence around it."""
    return (found if found.count("(") == found.count(")") else found.strip("() ")).strip().replace("\n", " ")


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
