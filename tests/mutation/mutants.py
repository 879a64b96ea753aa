"""Mutants of a module: the module's text with one small change, made by the operators of mutmut.

mutmut's own runs leave out what is not in a plain function: tables, defaults of fields, properties.
Its operators are used here on the whole module instead.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final

import libcst as cst
import libcst.matchers as m
from attrs import frozen
from mutmut.mutation import mutators

Operator = Callable[[Any], Iterable[cst.CSTNode]]


@frozen
class Mutant:
    """A small change of a module, identified by its text, since lines may move."""

    module: str
    line: int
    function: str
    before: str
    after: str
    source: str

    @property
    def change(self) -> str:
        """The change in one line."""
        return f"{self.before}  ->  {self.after}"


def _word(node: cst.SimpleString) -> Iterator[cst.CSTNode]:
    """Change a text of one word, such as a key; the wording of messages is nobody's promise."""
    if " " not in node.value:
        yield from list(mutators.operator_string(node))[:1]


_EFFECT: Final = (
    m.Expr(m.Call() | m.Await() | m.Yield())
    | m.Raise()
    | m.Return()
    | m.Del()
    | m.AugAssign()
    | m.Assign(targets=[m.AssignTarget(m.Attribute() | m.Subscript())])
)


def _left_out(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """Leave out a statement that does something; mutmut has no operator for this."""
    if m.matches(node, m.SimpleStatementLine(body=[_EFFECT])):
        yield node.with_changes(body=[cst.Pass()])


_WITHOUT_EFFECT: Final = m.SimpleStatementLine(
    body=[m.Expr(m.Call(m.Name("assert_never"))) | m.Assign(value=m.Call(m.Name("TypeVar")))]
)
"""Statements that never run, and names that only type checkers read."""

_KINDS: Final[dict[Operator, str]] = {
    mutators.operator_number: "value",
    mutators.operator_name: "value",
    _word: "value",
    mutators.operator_swap_op: "condition",
    mutators.operator_keywords: "condition",
    mutators.operator_remove_unary_ops: "condition",
    mutators.operator_if_exp: "condition",
    mutators.operator_match: "condition",
    mutators.operator_assignment: "statement",
    mutators.operator_augmented_assignment: "statement",
    _left_out: "statement",
}
"""A sample has as many of each kind as there are; the other operators change calls."""

_OPERATORS: Final[tuple[tuple[type, Operator], ...]] = (
    *(pair for pair in mutators.mutation_operators if pair[1] is not mutators.operator_string),
    (cst.SimpleString, _word),
    (cst.SimpleStatementLine, _left_out),
)


@frozen
class _Site:
    kind: str
    function: str
    old: cst.CSTNode
    new: cst.CSTNode


class _Sites(cst.CSTVisitor):
    """Places that an operator can change, except types, decorators and dead statements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Site] = []
        self._names: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator) or m.matches(node, _WITHOUT_EFFECT):
            return False
        if isinstance(node, cst.ClassDef | cst.FunctionDef):
            self._names.append(node.name.value)
        for kind, operator in _OPERATORS:
            if isinstance(node, kind):
                self.found.extend(
                    _Site(_KINDS.get(operator, "call"), ".".join(self._names), node, new)
                    for new in operator(node)
                )
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.ClassDef | cst.FunctionDef):
            self._names.pop()


def sample(module: str, source: str, *, seed: int, each: int) -> list[Mutant]:
    """Choose mutants by a seed, by turns of each kind.

    The place of a change in the order depends on its own text alone, so that a module which was
    edited elsewhere keeps its sample.
    """
    tree = cst.parse_module(source)
    sites = _Sites()
    tree.visit(sites)
    by_kind: dict[str, list[tuple[str, _Site]]] = {}
    for site in sites.found:
        text = f"{seed} {site.function} {tree.code_for_node(site.old)} {_code(tree, site.new)}"
        order = hashlib.sha256(text.encode()).hexdigest()
        by_kind.setdefault(site.kind, []).append((order, site))
    ordered = (sorted(of_kind, key=lambda pair: pair[0]) for of_kind in by_kind.values())
    chosen: dict[tuple[str, str], Mutant] = {}
    for turn in zip_longest(*ordered):
        for pair in turn:
            if len(chosen) == each:
                break
            if pair and (mutant := _mutant(module, source, tree, pair[1])):
                chosen.setdefault((mutant.function, mutant.change), mutant)
    return sorted(chosen.values(), key=lambda mutant: mutant.line)


def _code(tree: cst.Module, new: object) -> str:
    return tree.code_for_node(new) if isinstance(new, cst.CSTNode) else type(new).__name__


def _mutant(module: str, source: str, tree: cst.Module, site: _Site) -> Mutant | None:
    changed = tree.deep_replace(site.old, site.new)
    assert isinstance(changed, cst.Module)
    try:
        compile(changed.code, module, "exec")
    except SyntaxError:
        return None
    old, new = source.splitlines(), changed.code.splitlines()
    start = _common(old, new)
    end = min(_common(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    return Mutant(
        module=module,
        line=start + 1,
        function=site.function,
        before=one_line("\n".join(old[start : len(old) - end])),
        after=one_line("\n".join(new[start : len(new) - end])),
        source=changed.code,
    )


def _common(left: list[str], right: list[str]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def one_line(text: str) -> str:
    """Put a text on one line, without indents."""
    return " ".join(text.split())
