"""How long modules and functions are, and which are too long. Judges length only, never content.

A module says why it is long in a comment ``# long: reason`` among its first 30 lines, a function on its signature.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MODULE_LINES = 300
MODULE_LINES_MAX = 400
FUNCTION_LINES = 40
FUNCTION_LINES_MAX = 60
HEAD_LINES = 30

_REASON = re.compile(r"#\s*long:\s*(\S.*)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long one module or function is."""

    place: str
    lines: int
    aim: int
    limit: int
    reason: str | None

    @property
    def is_long(self) -> bool:
        return self.lines > self.aim

    @property
    def is_fault(self) -> bool:
        return self.lines > self.limit and self.reason is None

    def __str__(self) -> str:
        verdict = f"because {self.reason}" if self.reason else f"aim {self.aim}, limit {self.limit}"
        return f"{'FAULT' if self.is_fault else 'long '} {self.lines:4d} lines  {self.place}  ({verdict})"


def measure(path: Path) -> list[Length]:
    """The lengths of the module at ``path`` (first) and of its functions; `SyntaxError` passes through."""
    source = path.read_text(encoding="utf-8")
    reasons = _reasons(source)
    module = Length(
        place=str(path),
        lines=len(source.splitlines()),
        aim=MODULE_LINES,
        limit=MODULE_LINES_MAX,
        reason=_reason_among(reasons, range(1, HEAD_LINES + 1)),
    )
    return [module, *(_length(path, function, reasons) for function in _functions(ast.parse(source, str(path))))]


def _length(path: Path, function: Function, reasons: dict[int, str]) -> Length:
    last = function.end_lineno or function.lineno
    return Length(
        place=f"{path}:{function.lineno} {function.name}",
        lines=last - function.lineno + 1 - _docstring_lines(function),
        aim=FUNCTION_LINES,
        limit=FUNCTION_LINES_MAX,
        reason=_reason_among(reasons, range(function.lineno, max(function.body[0].lineno, function.lineno + 1))),
    )


def _functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _docstring_lines(function: Function) -> int:
    if ast.get_docstring(function, clean=False) is None:
        return 0
    first = function.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def _reasons(source: str) -> dict[int, str]:
    """Line numbers of the ``# long:`` comments, and what they say; a string that looks like one does not count."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = ((token.start[0], _REASON.match(token.string)) for token in tokens if token.type == tokenize.COMMENT)
    return {line: match[1] for line, match in comments if match}


def _reason_among(reasons: dict[int, str], lines: range) -> str | None:
    return next((reasons[line] for line in lines if line in reasons), None)


def _summary(lengths: Sequence[Length], noun: str) -> str:
    if not lengths:
        return f"no {noun}s"
    lines = [length.lines for length in lengths]
    return f"{len(lines)} {noun}s, median {statistics.median(lines):.0f} lines, longest {max(lines)}"


def main(argv: Sequence[str]) -> int:
    """Report on the Python files under each directory of ``argv``; 1 when one is too long without a reason."""
    paths = sorted(path for directory in argv for path in Path(directory).rglob("*.py"))
    measured = [measure(path) for path in paths]
    modules = [lengths[0] for lengths in measured]
    functions = [length for lengths in measured for length in lengths[1:]]
    for length in sorted(modules + functions, key=lambda length: -length.lines):
        if length.is_long:
            print(length)
    print(f"{_summary(modules, 'module')}; {_summary(functions, 'function')}, docstrings not counted")
    return int(any(length.is_fault for length in modules + functions))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
