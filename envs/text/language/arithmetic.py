"""Find an arithmetic expression in a sentence and compute it exactly."""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

MAX_OPERATIONS = 8
MAX_DIGITS = 15

_SIGNS = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-"})
_LATEX = re.compile(r"\\[()\[\]]|\$")
_TIMES = re.compile(r"(?<=[0-9)])\s*x\s*(?=[0-9(])")
_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_EXPRESSION = re.compile(rf"(?<![\w.])(?:[-(]\s*)*{_NUMBER}(?:[\s)]*[-+*/][-+*/\s(]*{_NUMBER}(?![0-9]))+(?:\s*\))*")
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class NotComputable(Exception):
    """The expression has no value: it is malformed, too long, or divides by zero."""


def expression(text: str) -> str:
    """Return the first expression with an operator in a plain text, with ``*`` and ``/`` as its signs; else nothing."""
    signs = _COMMA.sub("", _TIMES.sub(" * ", _LATEX.sub(" ", text).translate(_SIGNS)))
    found = _EXPRESSION.search(signs)
    return _balanced(found.group()) if found else ""


def _balanced(found: str) -> str:
    """Return an expression without the parentheses of the sentence around it."""
    return (found if found.count("(") == found.count(")") else found.strip("() ")).strip()


def compute(text: str) -> Fraction:
    """Return the exact value of an expression of ``+ - * /``, parentheses and numbers.

    Raises:
        NotComputable: the expression is malformed, too long, or divides by zero.
    """
    digits = re.findall(r"[0-9]+", text)
    if len(re.findall(r"[-+*/(]", text)) > 2 * MAX_OPERATIONS or any(len(each) > MAX_DIGITS for each in digits):
        raise NotComputable("too long")
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
