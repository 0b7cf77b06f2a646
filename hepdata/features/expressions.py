"""Expressions of columns, such as `abs(eta) < 2.5 and pt > 0.5`: text and columns in, one array out.

numexpr computes them. It hands its text to Python's `eval` after a check by regular expressions; so that text
is written here, from a tree in which only operators, numbers, listed functions and columns are allowed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hepdata.errors import InputError, nearest_name

FUNCTIONS: dict[str, int] = {
    **dict.fromkeys(("abs", "sqrt", "exp", "expm1", "log", "log10", "log1p", "floor", "ceil"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "arcsin", "arccos", "arctan"), 1),
    **dict.fromkeys(("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"), 1),
    **dict.fromkeys(("hypot", "arctan2"), 2),
    "where": 3,
}
"""Every function that an expression may call, and its number of arguments."""
_CONSTANTS = {"pi": np.pi, "e": np.e}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_LOGIC = {ast.BitAnd: "&", ast.BitOr: "|", ast.And: "&", ast.Or: "|"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_LONGEST = 2000
# Python's parser fails beyond 200 nested parentheses.
_DEEPEST = 50


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Attributes:
        text: As the user wrote it.
        columns: The columns that it names, in the order in which they first occur.
        safe_text: The same for numexpr, with `c0`, `c1`, … for the columns.
    """

    text: str
    columns: tuple[str, ...]
    safe_text: str = field(repr=False)

    def evaluate(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The value for every point.

        Raises:
            InputError: Types that do not go together, such as `-flag` of a yes-or-no column.
        """
        import numexpr

        values = {f"c{i}": _widen(columns[name]) for i, name in enumerate(self.columns)}
        try:
            return np.asarray(numexpr.evaluate(self.safe_text, values, {}, truediv=True))
        except (TypeError, ValueError, NotImplementedError, RuntimeError, ArithmeticError) as error:
            raise _refuse(
                self.text,
                f"types that do not go together ({' '.join(str(error).split())[:150]})",
                "numbers where numbers are needed, comparisons between `and` and `or`",
            ) from error


def parse_expression(text: str, known: list[str], where: str) -> Expression:
    """Check an expression.

    Args:
        text: What a user wrote.
        known: Names of the columns that there are.
        where: Parameter that it was given to, for messages.

    Raises:
        InputError: Anything but operators, numbers, listed functions and known columns.
    """
    try:
        if len(text) > _LONGEST:
            raise SyntaxError(f"{len(text)} characters")
        tree = ast.parse(text.strip(), mode="eval").body
        _check_depth(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refuse(f"{where} {text[:200]!r}", f"no expression ({error})", _GRAMMAR) from error
    columns: dict[str, str] = {}
    safe_text = _Writer(text, where, known, columns).write(tree)
    if not columns:
        raise _refuse(f"{where} {text!r}", "no column in it", "an expression of columns")
    return Expression(text, tuple(columns), safe_text)


def _check_depth(tree: ast.expr) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [below for node in level for below in ast.iter_child_nodes(node)]
        if not level:
            return
    raise SyntaxError(f"parts nested deeper than {_DEEPEST} levels")


_GRAMMAR = "columns, numbers, + - * / % **, < <= > >= == !=, and, or, not, and functions"


@dataclass(frozen=True)
class _Writer:
    """Translates a syntax tree to the text of an expression of numexpr, and refuses all other nodes.

    `columns` collects the columns and their aliases.
    """

    text: str
    where: str
    known: list[str]
    columns: dict[str, str]

    def write(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int() | float() as value) if _is_finite(value):
                return repr(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
                return f"({'-' if isinstance(op, ast.USub) else '+'}{self.write(operand)})"
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return f"(~{self.write(operand)})"
            case ast.BinOp(op=ast.Pow(), left=left, right=right) if not _has(node, ast.Name):
                # Python would compute 9**9**9 before numexpr sees a column.
                raise self._refuse(f"{ast.unparse(node)!r}", "the number itself")
            case ast.BinOp(op=ast.Mod(), left=left, right=right) if not _has(right, ast.Mod):
                # The remainder by -1 is that by 1, but of the lowest integer the processor refuses it.
                divisor = self.write(right)
                return f"({self.write(left)} % where({divisor} == -1, 1, {divisor}))"
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                return f"({self.write(left)} {_ARITHMETIC[type(op)]} {self.write(right)})"
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _LOGIC:
                return f"({self.write(left)} {_LOGIC[type(op)]} {self.write(right)})"
            case ast.BoolOp(op=op, values=values):
                return "(" + f" {_LOGIC[type(op)]} ".join(map(self.write, values)) + ")"
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _COMPARISONS for op in ops
            ):
                # −1 < x < 1 is two comparisons.
                sides = [self.write(side) for side in (left, *others)]
                parts = [
                    f"({a} {_COMPARISONS[type(op)]} {b})"
                    for a, op, b in zip(sides[:-1], ops, sides[1:], strict=True)
                ]
                return "(" + " & ".join(parts) + ")"
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, arguments)
        raise self._refuse(f"{ast.unparse(node)!r}", _GRAMMAR)

    def _name(self, name: str) -> str:
        if name in self.known:
            return self.columns.setdefault(name, f"c{len(self.columns)}")
        if name in _CONSTANTS:
            return repr(_CONSTANTS[name])
        raise InputError(
            f"{self.where} {self.text!r}",
            found=f"the unknown column {name!r}",
            expected="a column of the points",
            remedy=nearest_name(name, self.known),
        )

    def _call(self, name: str, arguments: list[ast.expr]) -> str:
        if name not in FUNCTIONS:
            raise InputError(
                f"{self.where} {self.text!r}",
                found=f"the unknown function {name!r}",
                expected="a function of numbers",
                remedy=nearest_name(name, list(FUNCTIONS)),
            )
        if len(arguments) != FUNCTIONS[name]:
            raise self._refuse(f"{len(arguments)} arguments of {name}", f"{FUNCTIONS[name]}")
        return f"{name}({', '.join(map(self.write, arguments))})"

    def _refuse(self, found: str, expected: str) -> InputError:
        return _refuse(f"{self.where} {self.text!r}", found, expected)


def _is_finite(value: float) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or math.isfinite(value))


def _has(node: ast.expr, kind: type[ast.AST]) -> bool:
    return any(isinstance(part, kind) for part in ast.walk(node))


def _refuse(where: str, found: str, expected: str) -> InputError:
    return InputError(where, found=found, expected=expected, remedy="correct the expression")


def _widen(values: NDArray[Any]) -> NDArray[Any]:
    """In a type that numexpr knows, without loss."""
    if values.dtype.kind == "u":
        return values.astype(np.int64)
    return values.astype(np.int32) if values.dtype in (np.int8, np.int16) else values
