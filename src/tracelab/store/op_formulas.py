"""FLOPs and bytes of ops: read the formulas of queries/op_formulas.csv and render them as SQL."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache

from tracelab.resources import QUERIES

SHIPPED = QUERIES / "op_formulas.csv"


@dataclass(frozen=True)
class Formula:
    """One line of op_formulas.csv: ops whose whole name matches `pattern` (RE2) have its FLOPs and bytes.

    `flop` and `least_bytes` are SQL over lists with an item for each argument of an op: `s` are sizes, `n` elements,
    `z` bytes of an element, and `c` the values of those that are no tensors, as text.
    """

    formula: str
    kind: str
    pattern: str
    flop: str
    least_bytes: str
    note: str

    @property
    def reads_values(self) -> bool:
        """Return whether the formula needs values of arguments, which take time to read."""
        return "c[" in self.flop + self.least_bytes


@cache
def load_formulas() -> tuple[Formula, ...]:
    """Return all formulas in the order in which they apply."""
    with SHIPPED.open(encoding="utf-8", newline="") as lines:
        return tuple(
            Formula(**{each.name: row[each.name] for each in fields(Formula)}) for row in csv.DictReader(lines)
        )


@cache
def render_formulas() -> str:
    """Render the view `op_formulas`, and the macros that find an op's formula and compute its FLOPs and bytes.

    Patterns and expressions are constants in one `case` each: DuckDB compiles a constant pattern once.
    """
    numbered = list(enumerate(load_formulas(), 1))
    rules = _cases(f"when regexp_full_match(name, {_literal(each.pattern)}) then {number}" for number, each in numbered)
    flop = _cases(f"when {number} then ({each.flop})::hugeint" for number, each in numbered)
    least_bytes = _cases(f"when {number} then ({each.least_bytes})::hugeint" for number, each in numbered)
    values = ",\n  ".join(
        f"({number}, {_literal(each.formula)}, {_literal(each.kind)}, {_literal(each.pattern)}, {each.reads_values}, "
        f"{_literal(each.note) if each.note else 'null'})"
        for number, each in numbered
    )
    return (
        f"create or replace macro op_formula(name) as case\n  {rules}\nend;\n\n"
        f"create or replace macro formula_flop(rule, s, n, z, c) as try(case rule\n  {flop}\nend);\n\n"
        f"create or replace macro formula_bytes(rule, s, n, z, c) as try(case rule\n  {least_bytes}\nend);\n\n"
        "create or replace view op_formulas as\n"
        f"from (values\n  {values}\n) as formulas(rule, formula, kind, pattern, reads_values, note);\n"
        "comment on view op_formulas is 'one formula of FLOPs and bytes; the first that fits an op''s name counts';"
    )


def _cases(branches: Iterable[str]) -> str:
    return "\n  ".join(branches)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
